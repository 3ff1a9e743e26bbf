// clang-format off
.largest_of_row =
    by_type<LargestOfRow>([]<Type kType>() { return largest_of_row<RowOf<kType>>; }),
.unpack_int8 = by_type<UnpackInt8>([]<Type kType>() { return unpack_int8<RowOf<kType>>; }),
