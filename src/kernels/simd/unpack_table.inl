// clang-format off
.unpack_bf16 = by_type<UnpackBf16>([]<Type kType>() { return unpack_bf16<RowOf<kType>>; }),
.largest_of_row = by_type<LargestOfRow>([]<Type kType>() { return largest_of_row<RowOf<kType>>; }),
.unpack_int8 = by_type<UnpackInt8>([]<Type kType>() { return unpack_int8<RowOf<kType>>; }),
