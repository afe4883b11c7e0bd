module {
  kvc.policy @ada_pyramidkv attributes {params = {beta = "20" : !kvc.fraction, safeguard = "0.2" : !kvc.fraction, width = 7 : index, window = 32 : index}, plan = #kvc.plan<queries = 32, protect_last = 32, lse = 1, scores = 3 of kv_heads, phases = [score, score, score, score, score, select, compact], buffers = [0 to 1 : tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>, 1 to 2 : tensor<?x32xf32, #kvc.axes<query_heads, query>>, 2 to 3 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 3 to 6 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 4 to 5 : tensor<?xi32, #kvc.axes<kv_heads>>]>} {
    %0 = kvc.kernel  statistics "statistics"() attributes {buffers = [#kvc.buffer<0, live = 0 to 1>]} : () -> tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>> {
      %c32 = arith.constant 32 : index
      %6 = kvc.row_statistics last(%c32) : tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>
      %c32_0 = arith.constant 32 : index
      kvc.yield protect_last(%c32_0) %6 : tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>
    }
    %1 = kvc.kernel  combine "combine"(%0) attributes {buffers = [#kvc.buffer<1, live = 1 to 2>]} : (tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>) -> tensor<?x32xf32, #kvc.axes<query_heads, query>> {
    ^bb0(%arg0: tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>>):
      %6 = kvc.combine_statistics %arg0 : tensor<?x32x?x2xf32, #kvc.axes<query_heads, query, split, pair>> -> tensor<?x32xf32, #kvc.axes<query_heads, query>>
      kvc.yield %6 : tensor<?x32xf32, #kvc.axes<query_heads, query>>
    }
    %2 = kvc.kernel  columns "columns0"() lse(%1) attributes {buffers = [#kvc.buffer<2, live = 2 to 3>]} : (tensor<?x32xf32, #kvc.axes<query_heads, query>>) -> tensor<?x?xf32, #kvc.axes<kv_heads, past>> {
    ^bb0(%arg0: tensor<?x32xf32, #kvc.axes<query_heads, query>>):
      %c32 = arith.constant 32 : index
      %6 = kvc.attention last(%c32) lse(%arg0 : tensor<?x32xf32, #kvc.axes<query_heads, query>>) : tensor<?x32x?xf32, #kvc.axes<query_heads, query, past>>
      %7 = kvc.reduce  mean  queries %6 : tensor<?x32x?xf32, #kvc.axes<query_heads, query, past>> -> tensor<?x?xf32, #kvc.axes<query_heads, past>>
      %8 = kvc.reduce  mean  group %7 : tensor<?x?xf32, #kvc.axes<query_heads, past>> -> tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      kvc.yield protect_last(%c32) %8 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
    }
    %3 = kvc.kernel  rows "rows0"(%2) attributes {buffers = [#kvc.buffer<3, live = 3 to 6>]} : (tensor<?x?xf32, #kvc.axes<kv_heads, past>>) -> tensor<?x?xf32, #kvc.axes<kv_heads, past>> {
    ^bb0(%arg0: tensor<?x?xf32, #kvc.axes<kv_heads, past>>):
      %c7 = arith.constant 7 : index
      %6 = kvc.pool  max %arg0 width(%c7) : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %c32 = arith.constant 32 : index
      kvc.yield protect_last(%c32) %6 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
    }
    %4 = kvc.kernel  sequence "sequence0"(%3) attributes {buffers = [#kvc.buffer<4, live = 4 to 5>]} : (tensor<?x?xf32, #kvc.axes<kv_heads, past>>) -> tensor<?xi32, #kvc.axes<kv_heads>> {
    ^bb0(%arg0: tensor<?x?xf32, #kvc.axes<kv_heads, past>>):
      %6 = kvc.fraction "20"
      %7 = kvc.allocate_layers ratio(%6) : tensor<?xi32, #kvc.axes<kv_heads>>
      %8 = kvc.fraction "0.2"
      %9 = kvc.allocate_heads %arg0 base(%7) safeguard(%8) : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?xi32, #kvc.axes<kv_heads>>
      %c32 = arith.constant 32 : index
      kvc.yield protect_last(%c32) %9 : tensor<?xi32, #kvc.axes<kv_heads>>
    }
    %5:2 = kvc.kernel  rows "rows1"(%3, %4) : (tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?xi32, #kvc.axes<kv_heads>>) -> (tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) {
    ^bb0(%arg0: tensor<?x?xf32, #kvc.axes<kv_heads, past>>, %arg1: tensor<?xi32, #kvc.axes<kv_heads>>):
      %6 = kvc.topk %arg0, %arg1 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?xi32, #kvc.axes<kv_heads>> -> tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %indices, %counts = kvc.list_kept %6 : tensor<?x?xi1, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      %c32 = arith.constant 32 : index
      kvc.yield protect_last(%c32) %indices, %counts : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
    }
    kvc.kernel  compact "compact"(%5#0, %5#1) : (tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) -> () {
    ^bb0(%arg0: tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, %arg1: tensor<?xi32, #kvc.axes<kv_heads>>):
      kvc.compact %arg0, %arg1 : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      kvc.yield
    }
    kvc.done
  }
}

