// clang-format off
.unpack_bf16 = by_type<UnpackBf16>({{Type::kF32, unpack_bf16<FloatRow<Type::kF32>>},
                                    {Type::kF16, unpack_bf16<FloatRow<Type::kF16>>},
                                    {Type::kBF16, unpack_bf16<FloatRow<Type::kBF16>>},
                                    {Type::kQ4_0, unpack_bf16<BlockRow<OrderedQ4_0>>},
                                    {Type::kQ5_0, unpack_bf16<BlockRow<OrderedQ5_0>>},
                                    {Type::kQ8_0, unpack_bf16<BlockRow<OrderedQ8_0>>},
                                    {Type::kQ4_K, unpack_bf16<BlockRow<OrderedQ4_K>>},
                                    {Type::kQ6_K, unpack_bf16<BlockRow<OrderedQ6_K>>}}),
