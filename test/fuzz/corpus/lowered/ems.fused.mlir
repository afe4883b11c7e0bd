module {
  kvc.policy @ems attributes {params = {closed = 0 : index, gamma = "4" : !kvc.fraction, tau = 6.000000e-01 : f32, width = 7 : index, window = 32 : index}, plan = #kvc.plan<queries = all, protect_last = 32, lse = 0, scores = 12 of kv_heads, phases = [score, score, score, score, select, compact], buffers = [0 to 1 : tensor<?x?xf32, #kvc.axes<query_heads, query>>, 1 to 5 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 1 to 2 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 1 to 3 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 1 to 3 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 2 to 4 : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, 2 to 3 : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, 2 to 3 : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, 2 to 3 : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, 2 to 3 : tensor<?xi32, #kvc.axes<kv_heads>>, 2 to 3 : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, 2 to 3 : tensor<?xi32, #kvc.axes<kv_heads>>, 2 to 5 per_block : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 3 to 4 : tensor<?x?xi32, #kvc.axes<kv_heads, past>>, 4 to 5 : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, 4 to 4 per_block : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>]>} {
    %0 = kvc.kernel  statistics "statistics"() attributes {buffers = [#kvc.buffer<0, live = 0 to 1>]} : () -> tensor<?x?xf32, #kvc.axes<query_heads, query>> {
      %5 = kvc.row_log_sum_exp : tensor<?x?xf32, #kvc.axes<query_heads, query>>
      %c32 = arith.constant 32 : index
      kvc.yield protect_last(%c32) %5 : tensor<?x?xf32, #kvc.axes<query_heads, query>>
    }
    %1:4 = kvc.kernel  columns "columns0"() lse(%0) attributes {buffers = [#kvc.buffer<1, live = 1 to 5>, #kvc.buffer<2, live = 1 to 2>, #kvc.buffer<3, live = 1 to 3>, #kvc.buffer<4, live = 1 to 3>]} : (tensor<?x?xf32, #kvc.axes<query_heads, query>>) -> (tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>) {
    ^bb0(%arg0: tensor<?x?xf32, #kvc.axes<query_heads, query>>):
      %c32 = arith.constant 32 : index
      %5 = kvc.attention last(%c32) lse(%arg0 : tensor<?x?xf32, #kvc.axes<query_heads, query>>) : tensor<?x32x?xf32, #kvc.axes<query_heads, query, past>>
      %6 = kvc.reduce  mean  queries %5 : tensor<?x32x?xf32, #kvc.axes<query_heads, query, past>> -> tensor<?x?xf32, #kvc.axes<query_heads, past>>
      %7 = kvc.length
      %8 = kvc.attention last(%7) lse(%arg0 : tensor<?x?xf32, #kvc.axes<query_heads, query>>) : tensor<?x?x?xf32, #kvc.axes<query_heads, query, past>>
      %9 = kvc.reduce  mean  queries %8 : tensor<?x?x?xf32, #kvc.axes<query_heads, query, past>> -> tensor<?x?xf32, #kvc.axes<query_heads, past>>
      %10 = kvc.reduce  mean  group %6 : tensor<?x?xf32, #kvc.axes<query_heads, past>> -> tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %11 = kvc.reduce  mean  group %9 : tensor<?x?xf32, #kvc.axes<query_heads, past>> -> tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %12 = arith.maximumf %11, %10 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %13 = kvc.norm  l2  raw_key : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %14 = kvc.norm  l2  value : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      kvc.yield protect_last(%c32) %10, %12, %13, %14 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>
    }
    %2:7 = kvc.kernel  rows "rows0"(%1#1) attributes {buffers = [#kvc.buffer<5, live = 2 to 4>, #kvc.buffer<6, live = 2 to 3>, #kvc.buffer<7, live = 2 to 3>, #kvc.buffer<8, live = 2 to 3>, #kvc.buffer<9, live = 2 to 3>, #kvc.buffer<10, live = 2 to 3>, #kvc.buffer<11, live = 2 to 3>]} : (tensor<?x?xf32, #kvc.axes<kv_heads, past>>) -> (tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) {
    ^bb0(%arg0: tensor<?x?xf32, #kvc.axes<kv_heads, past>>):
      %c7 = arith.constant 7 : index
      %5 = kvc.pool  mean %arg0 width(%c7) : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %6 = kvc.allocate uniform : tensor<?xi32, #kvc.axes<kv_heads>>
      %7 = kvc.store %5 {buffer = #kvc.buffer<12, live = 2 to 5>} : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %8 = kvc.topk %7, %6 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?xi32, #kvc.axes<kv_heads>> -> tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %9 = kvc.budget
      %10 = kvc.fraction "4"
      %11 = kvc.scale_count %9 by(%10) : index
      %12 = arith.subi %11, %9 : index
      %13 = kvc.broadcast %12 : index to tensor<1xi32, #kvc.axes<one_head>>
      %14 = kvc.broadcast %13 : tensor<1xi32, #kvc.axes<one_head>> to tensor<?xi32, #kvc.axes<kv_heads>>
      %15 = arith.addi %6, %14 : tensor<?xi32, #kvc.axes<kv_heads>>
      %16 = kvc.topk %7, %15 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?xi32, #kvc.axes<kv_heads>> -> tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %17 = arith.xori %16, %8 : tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %c0 = arith.constant 0 : index
      %18 = kvc.broadcast %c0 : index to tensor<1xi32, #kvc.axes<one_head>>
      %19 = kvc.topk %7, %18 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<1xi32, #kvc.axes<one_head>> -> tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %20 = arith.cmpi ult, %19, %8 : tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %indices, %counts = kvc.list %17 : tensor<?x?xi1, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      %indices_0, %counts_1 = kvc.list %20 : tensor<?x?xi1, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      %c32 = arith.constant 32 : index
      kvc.yield protect_last(%c32) %8, %17, %20, %indices, %counts, %indices_0, %counts_1 : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
    }
    %3 = kvc.kernel  nearest "nearest0"(%2#1, %2#2, %2#3, %2#4, %2#5, %2#6, %1#2, %1#3) attributes {buffers = [#kvc.buffer<13, live = 3 to 4>]} : (tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>) -> tensor<?x?xi32, #kvc.axes<kv_heads, past>> {
    ^bb0(%arg0: tensor<?x?xi1, #kvc.axes<kv_heads, past>>, %arg1: tensor<?x?xi1, #kvc.axes<kv_heads, past>>, %arg2: tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, %arg3: tensor<?xi32, #kvc.axes<kv_heads>>, %arg4: tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, %arg5: tensor<?xi32, #kvc.axes<kv_heads>>, %arg6: tensor<?x?xf32, #kvc.axes<kv_heads, past>>, %arg7: tensor<?x?xf32, #kvc.axes<kv_heads, past>>):
      %cst = arith.constant 6.000000e-01 : f32
      %5 = kvc.nearest %arg0 in %arg1 of  raw_key times  value at_least(%cst) lists(%arg2, %arg3, %arg4, %arg5 : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) norms(%arg6, %arg7 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>) : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi1, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, past>>
      %c32 = arith.constant 32 : index
      kvc.yield protect_last(%c32) %5 : tensor<?x?xi32, #kvc.axes<kv_heads, past>>
    }
    %4:3 = kvc.kernel  rows "rows1"(%2#0, %3) attributes {buffers = [#kvc.buffer<14, live = 4 to 5>]} : (tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi32, #kvc.axes<kv_heads, past>>) -> (tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) {
    ^bb0(%arg0: tensor<?x?xi1, #kvc.axes<kv_heads, past>>, %arg1: tensor<?x?xi32, #kvc.axes<kv_heads, past>>):
      %indices, %counts = kvc.list_kept %arg0 : tensor<?x?xi1, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      %5 = kvc.list_members %arg0, %arg1 {buffer = #kvc.buffer<15, live = 4 to 4>} : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xi32, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>
      %c32 = arith.constant 32 : index
      kvc.yield protect_last(%c32) %5, %indices, %counts : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
    }
    kvc.kernel  compact "compact"(%4#0, %1#0) : (tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>) -> () {
    ^bb0(%arg0: tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, %arg1: tensor<?x?xf32, #kvc.axes<kv_heads, past>>):
      kvc.merge %arg0 weight(%arg1) : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %c32 = arith.constant 32 : index
      kvc.yield protect_last(%c32)
    }
    kvc.done
  }
}

