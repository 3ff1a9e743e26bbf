// clang-format off
.unpack_bf16 = by_type<UnpackBf16>([]<Type kType>() { return unpack_bf16<RowOf<kType>>; }),
