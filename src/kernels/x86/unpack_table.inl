// clang-format off
.unpack_bf16 = by_type<UnpackBf16>({{Type::kF32, unpack_bf16<FloatValues<Type::kF32>>},
                                    {Type::kF16, unpack_bf16<FloatValues<Type::kF16>>},
                                    {Type::kBF16, unpack_bf16<FloatValues<Type::kBF16>>},
                                    {Type::kQ4_0, unpack_bf16<BlockValues<OrderedQ4_0>>},
                                    {Type::kQ5_0, unpack_bf16<BlockValues<OrderedQ5_0>>},
                                    {Type::kQ8_0, unpack_bf16<BlockValues<OrderedQ8_0>>},
                                    {Type::kQ4_K, unpack_bf16<BlockValues<OrderedQ4_K>>},
                                    {Type::kQ6_K, unpack_bf16<BlockValues<OrderedQ6_K>>}}),
