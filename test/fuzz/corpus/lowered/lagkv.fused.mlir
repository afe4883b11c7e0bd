module {
  kvc.policy @lagkv attributes {params = {lag = 128 : index, sinks = 4 : index}, plan = #kvc.plan<queries = 0, protect_last = 0, lse = none, scores = 0 of kv_heads, phases = [score, select, compact], buffers = [0 to 2 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 0 to 2 per_block : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 0 to 2 per_block : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, 0 to 2 per_block : tensor<?x?xf32, #kvc.axes<kv_heads, past>>]>} {
    %0 = kvc.kernel  segments "segments0"() attributes {buffers = [#kvc.buffer<0, live = 0 to 2>]} : () -> tensor<?x?xf32, #kvc.axes<kv_heads, past>> {
      %2 = kvc.vectors  key : tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>>
      %c128 = arith.constant 128 : index
      %c4 = arith.constant 4 : index
      %3 = kvc.segment  minmax next %2 length(%c128) from(%c4) : tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>>
      %4 = kvc.reduce  std  channels %3 : tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>> -> tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %5 = kvc.store %4 {buffer = #kvc.buffer<1, live = 0 to 2>} : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %6 = kvc.segment  softmax %5 length(%c128) from(%c4) : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %7 = kvc.vectors  value : tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>>
      %8 = kvc.segment  minmax next %7 length(%c128) from(%c4) : tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>>
      %9 = kvc.reduce  std  channels %8 : tensor<?x?x?xf32, #kvc.axes<kv_heads, channel, past>> -> tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %10 = kvc.store %9 {buffer = #kvc.buffer<2, live = 0 to 2>} : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %11 = kvc.segment  softmax %10 length(%c128) from(%c4) : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %12 = arith.addf %6, %11 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %13 = kvc.store %12 {buffer = #kvc.buffer<3, live = 0 to 2>} : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %14 = kvc.segment  rank %13 length(%c128) from(%c4) : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %15 = kvc.position from_end : tensor<1x?xi32, #kvc.axes<one_head, past>>
      %16 = kvc.length
      %17 = arith.subi %16, %c4 : index
      %18 = arith.remui %17, %c128 : index
      %19 = arith.addi %18, %c128 : index
      %20 = kvc.broadcast %19 : index to tensor<1x?xi32, #kvc.axes<one_head, past>>
      %21 = arith.cmpi ult, %15, %20 : tensor<1x?xi32, #kvc.axes<one_head, past>>
      %22 = kvc.broadcast %21 : tensor<1x?xi1, #kvc.axes<one_head, past>> to tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %23 = kvc.position : tensor<1x?xi32, #kvc.axes<one_head, past>>
      %24 = arith.uitofp %23 : tensor<1x?xi32, #kvc.axes<one_head, past>> to tensor<1x?xf32, #kvc.axes<one_head, past>>
      %25 = kvc.broadcast %24 : tensor<1x?xf32, #kvc.axes<one_head, past>> to tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %26 = arith.select %22, %25, %14 : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %27 = kvc.broadcast %c4 : index to tensor<1x?xi32, #kvc.axes<one_head, past>>
      %28 = arith.cmpi ult, %23, %27 : tensor<1x?xi32, #kvc.axes<one_head, past>>
      %29 = kvc.broadcast %28 : tensor<1x?xi1, #kvc.axes<one_head, past>> to tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %cst = arith.constant 0x7F800000 : f32
      %30 = kvc.broadcast %cst : f32 to tensor<1x?xf32, #kvc.axes<one_head, past>>
      %31 = kvc.broadcast %30 : tensor<1x?xf32, #kvc.axes<one_head, past>> to tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      %32 = arith.select %29, %31, %26 : tensor<?x?xi1, #kvc.axes<kv_heads, past>>, tensor<?x?xf32, #kvc.axes<kv_heads, past>>
      kvc.yield %32 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>
    }
    %1:2 = kvc.kernel  rows "rows0"(%0) : (tensor<?x?xf32, #kvc.axes<kv_heads, past>>) -> (tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) {
    ^bb0(%arg0: tensor<?x?xf32, #kvc.axes<kv_heads, past>>):
      %2 = kvc.allocate uniform : tensor<?xi32, #kvc.axes<kv_heads>>
      %3 = kvc.topk %arg0, %2 : tensor<?x?xf32, #kvc.axes<kv_heads, past>>, tensor<?xi32, #kvc.axes<kv_heads>> -> tensor<?x?xi1, #kvc.axes<kv_heads, past>>
      %indices, %counts = kvc.list_kept %3 : tensor<?x?xi1, #kvc.axes<kv_heads, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      kvc.yield %indices, %counts : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
    }
    kvc.kernel  compact "compact"(%1#0, %1#1) : (tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) -> () {
    ^bb0(%arg0: tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, %arg1: tensor<?xi32, #kvc.axes<kv_heads>>):
      kvc.compact %arg0, %arg1 : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      kvc.yield
    }
    kvc.done
  }
}

