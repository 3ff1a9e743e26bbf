// clang-format off
// The functions of a table whose names are the same in every instruction set.
.matmul_f32 = by_type<MatmulF32>([]<Type kType>() { return matmul_f32<kType>; }),
.matmul_q8 = by_type<MatmulQ8>([]<Type kType>() {
  if constexpr (tensor::is_float(kType)) {
    return matmul_q8_float<kType>;
  } else {
    return matmul_q8_blocks<kType>;
  }
}),
.add_columns = by_column_form([]<ColumnForm kForm>() { return add_columns<kForm>; }),
.quantize_activations = quantize_activations,
.quantize_int8 = quantize_int8,
.narrow_bf16 = narrow_bf16,
.matmul_int8 = matmul_int8,
.matmul_bf16 = matmul_bf16,
.rms_norm = rms_norm,
.layer_norm = layer_norm,
.rope_normal = rope_normal,
.rope_neox = rope_neox,
.silu_mul = silu_mul,
.gelu_mul = gelu_mul,
.relu_mul = relu_mul,
.silu = silu,
.gelu = gelu,
.relu = relu,
.add = add,
.scale = scale,
.soft_cap = soft_cap,
.exp = exp,
.softmax = softmax,
.argmax = argmax,
.count_above = count_above,
.find_above = find_above,
.attention = attention,
.attention_segment = attention_segment,
.attention_merge = attention_merge,
.attention_tile = attention_tile,
.store_kv = store_kv,
.load_kv = load_kv,
.weigh_scores = weigh_scores,
.raise_largest = raise_largest,
.mark_first = mark_first,
.pack_values = pack_values,
