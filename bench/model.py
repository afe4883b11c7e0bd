"""A random model of given shapes, as a Hugging Face directory; standard library only."""
import json
import os
import struct


def write(folder, layers, hidden, inner, heads, kv_heads, dim, vocab, dtype):
    """`dtype` is F32 or BF16. Returns the parameters of a layer's matrices and of the embedding,
    which is the head, too."""
    json.dump({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": layers, "hidden_size": hidden,
               "intermediate_size": inner, "vocab_size": vocab, "num_attention_heads": heads,
               "num_key_value_heads": kv_heads, "head_dim": dim, "max_position_embeddings": 1 << 20,
               "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
               "torch_dtype": {"F32": "float32", "BF16": "bfloat16"}[dtype]}, open(folder + "/config.json", "w"))
    wide, narrow = heads * dim, kv_heads * dim
    of_layer = {"self_attn.q_proj": [wide, hidden], "self_attn.k_proj": [narrow, hidden],
                "self_attn.v_proj": [narrow, hidden], "self_attn.o_proj": [hidden, wide],
                "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner],
                "input_layernorm": [hidden], "post_attention_layernorm": [hidden]}
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    for layer in range(layers):
        shapes.update({f"model.layers.{layer}.{name}.weight": shape for name, shape in of_layer.items()})
    size = {"F32": 4, "BF16": 2}[dtype]
    count = lambda shape: shape[0] * (shape[1] if len(shape) > 1 else 1)
    header, at = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size * count(shape)]}
        at += size * count(shape)
    text = json.dumps(header).encode()
    # The last byte of an element is sign and exponent: of either sign, from 0.008 to 0.03.
    signs = bytes(0x3c | (i & 1) << 7 for i in range(256))
    one = struct.pack("<f", 1.0)[4 - size:]
    with open(folder + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            if len(shape) == 1:
                file.write(one * shape[0])
                continue
            values = bytearray(os.urandom(size * count(shape)))
            values[size - 1::size] = values[size - 1::size].translate(signs)
            file.write(values)
    return sum(count(shape) for shape in of_layer.values() if len(shape) > 1), vocab * hidden
