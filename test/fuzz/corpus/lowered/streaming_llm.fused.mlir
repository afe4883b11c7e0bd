module {
  kvc.policy @streaming_llm attributes {params = {sinks = 4 : index}, plan = #kvc.plan<queries = 0, protect_last = unknown, lse = none, scores = none, phases = [select, compact], buffers = []>} {
    %0:2 = kvc.kernel  rows "rows0"() : () -> (tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) {
      %1 = kvc.position : tensor<1x?xi32, #kvc.axes<one_head, past>>
      %2 = kvc.budget
      %c4 = arith.constant 4 : index
      %3 = arith.minui %2, %c4 : index
      %4 = kvc.broadcast %3 : index to tensor<1x?xi32, #kvc.axes<one_head, past>>
      %5 = arith.cmpi ult, %1, %4 : tensor<1x?xi32, #kvc.axes<one_head, past>>
      %indices, %counts = kvc.list_kept %5 : tensor<1x?xi1, #kvc.axes<one_head, past>> -> tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      %6 = arith.subi %2, %3 : index
      kvc.yield protect_last(%6) %indices, %counts : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
    }
    kvc.kernel  compact "compact"(%0#0, %0#1) : (tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>) -> () {
    ^bb0(%arg0: tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, %arg1: tensor<?xi32, #kvc.axes<kv_heads>>):
      kvc.compact %arg0, %arg1 : tensor<?x?xi32, #kvc.axes<kv_heads, kept>>, tensor<?xi32, #kvc.axes<kv_heads>>
      kvc.yield
    }
    kvc.done
  }
}

