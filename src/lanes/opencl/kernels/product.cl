// Computes products of weights in panels with activations, and reads rows of an embedding table.
//
// A strip is 16 rows of a weight side by side: (k, 16), with a scale and perhaps a minimum for each
// row and group of k: (n_groups, 16). weight = scale * level - minimum, or the level itself.
// FORM   how a level is stored        GROUP     k of a group
// HAS_SCALES, HAS_MINIMA              IS_EXACT  levels of both sides are whole numbers, sums int32
// BASE   what a nibble of 0 stands for
// MIDDLE  where levels with minima lie around
// DOT    the function that multiplies 4 bytes with 4 and adds the products, for QUADS
// ROWS   rows of a strip that a work item takes, side by side: a piece of the strip
// SPLIT  work items that share the groups of a piece
// HALF   1: levels, activations and sums of a group are half floats; 2: floats that are rounded so
// OF_EXPERTS  the weights are those of all experts of a mixture, one behind the other. A row of the
//        output is a part, of a token and an expert, as the table of kernels/experts.cl places it;
//        tiles are those of that table
//
// QUADS are exact, and every k stands for 4 of the product's: 4 levels of a row, and 4 of a token,
// are the bytes of one number.
//
// Halves hold levels exactly, and nothing above 65504. So a token's activations of a group are
// multiplied with a power of two that brings them to 1 at most. The sum of a group is at most 128 *
// 32 then. Levels with minima have MIDDLE subtracted, so that sums are smaller and keep more bits;
// the minimum makes up for it.
//
// Each element is summed in the order of k within its group, then group by group. Of several work
// items each takes every SPLIT-th group, and their sums are added in their order. So the bits of an
// element do not depend on how many tokens and pieces a work item takes.
#pragma OPENCL FP_CONTRACT OFF

#define FLOATS 0
#define HALVES 1
#define BFLOATS 2
#define BYTES 3
#define NIBBLES 4
#define QUADS 5

#define JOINED_(A, B) A##B
#define JOINED(A, B) JOINED_(A, B)
#define LOAD JOINED(vload, ROWS)
#define STORE JOINED(vstore, ROWS)
#define LOAD_HALVES JOINED(vload_half, ROWS)
#define STORE_HALVES JOINED(JOINED(vstore_half, ROWS), _rte)
#define TO_CHARS JOINED(convert_char, ROWS)
#define TO_UINTS JOINED(convert_uint, ROWS)
#define TO_INTS JOINED(convert_int, ROWS)
#define TO_FLOATS JOINED(convert_float, ROWS)
#define AS_FLOATS JOINED(as_float, ROWS)
typedef JOINED(uchar, ROWS) uchars_t;
typedef JOINED(int, ROWS) ints_t;
typedef JOINED(uint, ROWS) uints_t;
typedef JOINED(float, ROWS) floats_t;

#define PIECES (16 / ROWS)

#if FORM == QUADS
#ifdef cl_khr_integer_dot_product
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#endif
typedef uint stored_t;
typedef uint input_t;
typedef uint value_t;
typedef uints_t levels_t;
typedef ints_t part_t;
value_t input_at(__global const input_t* x, ulong k) { return x[k]; }
levels_t levels_of(__global const uint* w, ulong k) { return LOAD(k * PIECES, w); }
// Does what the device's own function does, where it has none.
int dot_of_bytes(uint a, uint b) {
  const char4 p = as_char4(a), q = as_char4(b);
  return p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
}
#if ROWS == 4
ints_t dots_of(uints_t a, uint b) {
  return (ints_t)(DOT(a.s0, b), DOT(a.s1, b), DOT(a.s2, b), DOT(a.s3, b));
}
#else
ints_t dots_of(uints_t a, uint b) {
  return (ints_t)(DOT(a.s0, b), DOT(a.s1, b), DOT(a.s2, b), DOT(a.s3, b), DOT(a.s4, b),
                 DOT(a.s5, b), DOT(a.s6, b), DOT(a.s7, b), DOT(a.s8, b), DOT(a.s9, b),
                 DOT(a.sa, b), DOT(a.sb, b), DOT(a.sc, b), DOT(a.sd, b), DOT(a.se, b),
                 DOT(a.sf, b));
}
#endif
part_t plus_products(levels_t levels, value_t x, part_t sum) { return sum + dots_of(levels, x); }
#elif HALF == 1
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half input_t;
typedef half value_t;
typedef JOINED(half, ROWS) levels_t;
typedef levels_t part_t;
#define TO_LEVELS JOINED(convert_half, ROWS)
value_t input_at(__global const input_t* x, ulong k) { return x[k]; }
part_t plus_products(levels_t levels, value_t x, part_t sum) {
  return fma(levels, (levels_t)(x), sum);
}
#elif HALF == 2
typedef half input_t;
typedef float value_t;
typedef floats_t levels_t;
typedef floats_t part_t;
#define TO_LEVELS TO_FLOATS
value_t input_at(__global const input_t* x, ulong k) { return vload_half(k, x); }
part_t plus_products(levels_t levels, value_t x, part_t sum) {
  ushort bits[ROWS];
  STORE_HALVES(fma(levels, (floats_t)(x), sum), 0, (__private half*)bits);
  return LOAD_HALVES(0, (__private half*)bits);
}
#else
typedef float input_t;
typedef float value_t;
typedef floats_t levels_t;
typedef floats_t part_t;
#define TO_LEVELS TO_FLOATS
value_t input_at(__global const input_t* x, ulong k) { return x[k]; }
part_t plus_products(levels_t levels, value_t x, part_t sum) {
  return fma(levels, (floats_t)(x), sum);
}
#endif

#if HALF
#define LEVEL_BASE (BASE + MIDDLE)
#else
#define LEVEL_BASE BASE
#endif

#if FORM == FLOATS
typedef float stored_t;
floats_t levels_of(__global const float* w, ulong k) { return LOAD(k * PIECES, w); }
float level_of(__global const float* w, ulong k, uint row) { return w[k * 16 + row]; }
#elif FORM == HALVES
typedef half stored_t;
floats_t levels_of(__global const half* w, ulong k) { return LOAD_HALVES(k * PIECES, w); }
float level_of(__global const half* w, ulong k, uint row) { return vload_half(k * 16 + row, w); }
#elif FORM == BFLOATS
typedef ushort stored_t;
floats_t levels_of(__global const ushort* w, ulong k) {
  return AS_FLOATS(TO_UINTS(LOAD(k * PIECES, w)) << 16);
}
float level_of(__global const ushort* w, ulong k, uint row) {
  return as_float((uint)w[k * 16 + row] << 16);
}
#elif FORM == BYTES
typedef char stored_t;
levels_t levels_of(__global const char* w, ulong k) {
  return TO_LEVELS(LOAD(k * PIECES, w) - (char)LEVEL_BASE);
}
float level_of(__global const char* w, ulong k, uint row) { return (float)w[k * 16 + row]; }
#elif FORM == NIBBLES
// Byte i of 32 k holds k = i in its low half and k = i + 16 in its high one.
typedef uchar stored_t;
levels_t low_levels_of(uchars_t pair) {
  return TO_LEVELS(TO_CHARS(pair & (uchar)15) - (char)LEVEL_BASE);
}
levels_t high_levels_of(uchars_t pair) {
  return TO_LEVELS(TO_CHARS(pair >> (uchar)4) - (char)LEVEL_BASE);
}
float level_of(__global const uchar* w, ulong k, uint row) {
  const uchar pair = w[(k / 32 * 16 + k % 16) * 16 + row];
  return (float)((k % 32 < 16 ? pair & 15 : pair >> 4) - BASE);
}
#endif

#if FORM == NIBBLES
#define STRIP_ITEMS(k) ((ulong)(k) * 8)
#else
#define STRIP_ITEMS(k) ((ulong)(k) * 16)
#endif

#if IS_EXACT
typedef ints_t sum_t;
#else
typedef floats_t sum_t;
#endif

#if SPLIT > 1
#define TOGETHER __attribute__((reqd_work_group_size(1, PIECES_TOGETHER, SPLIT)))
#define FIRST_GROUP (uint)get_local_id(2)
#define SHARE __local sum_t shared[PIECES_TOGETHER * SPLIT];
#define IS_LAST_TO_WORK (get_local_id(2) == 0)
#define ALL_OF(SUM) joined(SUM, shared)
// Returns the sum of what the work items of a piece have, to the first of them.
sum_t joined(sum_t own, __local sum_t* shared) {
  const uint item = get_local_id(1) * SPLIT + get_local_id(2);
  shared[item] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(2) == 0) {
    for (uint i = 1; i < SPLIT; ++i) own += shared[item + i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return own;
}
#else
#define TOGETHER
#define FIRST_GROUP 0
#define SHARE
#define IS_LAST_TO_WORK true
#define ALL_OF(SUM) SUM
#endif

#if OF_EXPERTS
#define EXPERT_ARGUMENTS                                                                           \
  , uint n_experts, uint n_used, uint takes_parts, __global const uint* table
// Finds the tile's rows, and moves weights on to those of its expert. There may be fewer tiles than
// work items: the others add no group and write nothing, but meet the items of their group.
#define FIND_TILE(TOKENS)                                                                          \
  const bool is_there = get_global_id(0) < table[0];                                               \
  __global const uint* parts = table + 1 + n_experts;                                              \
  __global const uint* tile = parts + 2 * (ulong)n_tokens + get_global_id(0) * 3;                  \
  const uint token = is_there ? tile[1] : 1, end_token = is_there ? tile[2] : 1;                   \
  const uint end_group = is_there ? n_groups : 0;                                                  \
  const ulong strips = (last_row - first_row + 15) / 16;                                           \
  const ulong strips_before = is_there ? tile[0] * strips : 0;                                     \
  w += strips_before * STRIP_ITEMS(k);                                                             \
  MOVE_SCALES MOVE_MINIMA
#define INPUT_OF(ROW) (takes_parts ? (ROW) : parts[ROW] / n_used)
#if HAS_SCALES
#define MOVE_SCALES scales += strips_before * n_groups * 16;
#else
#define MOVE_SCALES
#endif
#if HAS_MINIMA
#define MOVE_MINIMA minima += strips_before * n_groups * 16;
#else
#define MOVE_MINIMA
#endif
#else
#define EXPERT_ARGUMENTS
#define FIND_TILE(TOKENS)                                                                          \
  const uint token = first_token + (uint)get_global_id(0) * TOKENS, end_token = n_tokens;          \
  const uint end_group = n_groups;
#define INPUT_OF(ROW) (ROW)
#endif

// Defines a kernel that computes y[t][row] for TOKENS tokens and COUNT pieces, from the work item's
// (global id 0, global id 1) on.
#define PRODUCT(NAME, TOKENS, COUNT)                                                               \
  TOGETHER __kernel void NAME(                                                                     \
      __global const stored_t* w, __global const float* scales, __global const float* minima,      \
      __global const float* bias, uint k, uint first_row, uint last_row, uint has_bias,            \
      uint y_stride, __global const input_t* all_x, ulong x_offset, __global const float* group_x, \
      __global float* all_y, ulong y_offset, uint first_token,                                     \
      uint n_tokens EXPERT_ARGUMENTS) {                                                            \
    const uint n_pieces = (last_row - first_row + ROWS - 1) / ROWS;                                \
    const uint piece = (uint)get_global_id(1) * COUNT;                                             \
    const uint n_groups = (k + GROUP - 1) / GROUP;                                                 \
    FIND_TILE(TOKENS)                                                                              \
    __global const input_t* x[TOKENS];                                                             \
    __global const stored_t* levels_at[COUNT];                                                     \
    uint tokens[TOKENS], inputs[TOKENS], pieces[COUNT];                                            \
    sum_t sums[TOKENS][COUNT];                                                                     \
    SHARE                                                                                          \
    _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                           \
      tokens[t] = min(token + (uint)t, end_token - 1);                                             \
      inputs[t] = INPUT_OF(tokens[t]);                                                             \
      x[t] = all_x + x_offset + (ulong)inputs[t] * k;                                              \
    }                                                                                              \
    _Pragma("unroll") for (int p = 0; p < COUNT; ++p) {                                            \
      pieces[p] = min(piece + (uint)p, n_pieces - 1);                                              \
      levels_at[p] = w + pieces[p] / PIECES * STRIP_ITEMS(k) + pieces[p] % PIECES * ROWS;          \
    }                                                                                              \
    _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                           \
      _Pragma("unroll") for (int p = 0; p < COUNT; ++p) sums[t][p] = (sum_t)0;                     \
    }                                                                                              \
    for (uint group = FIRST_GROUP; group < end_group; group += SPLIT) {                            \
      part_t parts[TOKENS][COUNT];                                                                 \
      _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                         \
        _Pragma("unroll") for (int p = 0; p < COUNT; ++p) parts[t][p] = (part_t)0;                 \
      }                                                                                            \
      ADD_GROUP(TOKENS, COUNT)                                                                     \
      _Pragma("unroll") for (int p = 0; p < COUNT; ++p) {                                          \
        ADD_PARTS(TOKENS)                                                                          \
      }                                                                                            \
    }                                                                                              \
    _Pragma("unroll") for (int p = 0; p < COUNT; ++p) {                                            \
      const uint row = first_row + pieces[p] * ROWS;                                               \
      _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                         \
        const sum_t sum = ALL_OF(sums[t][p]);                                                      \
        if (!IS_LAST_TO_WORK || token + t >= end_token || piece + p >= n_pieces) continue;         \
        FINISH                                                                                     \
        __global float* y = all_y + y_offset + (ulong)tokens[t] * y_stride + row;                  \
        if (row + ROWS <= last_row) {                                                              \
          if (has_bias) value += LOAD(0, bias + row);                                              \
          STORE(value, 0, y);                                                                      \
          continue;                                                                                \
        }                                                                                          \
        float values[ROWS];                                                                        \
        STORE(value, 0, values);                                                                   \
        for (uint r = 0; row + r < last_row; ++r) {                                                \
          y[r] = has_bias ? values[r] + bias[row + r] : values[r];                                 \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }

#define ADD_K(TOKENS, COUNT, K)                                                                    \
  {                                                                                                \
    levels_t levels[COUNT];                                                                        \
    _Pragma("unroll") for (int p = 0; p < COUNT; ++p) levels[p] = levels_of(levels_at[p], K);      \
    _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                           \
      const value_t of_token = input_at(x[t], K);                                                  \
      _Pragma("unroll") for (int p = 0; p < COUNT; ++p) {                                          \
        parts[t][p] = plus_products(levels[p], of_token, parts[t][p]);                             \
      }                                                                                            \
    }                                                                                              \
  }

#if FORM == NIBBLES
#define ADD_GROUP(TOKENS, COUNT)                                                                   \
  for (uint i = 0; i < 16; ++i) {                                                                  \
    const uint low_k = group * 32 + i, high_k = low_k + 16;                                        \
    levels_t low[COUNT], high[COUNT];                                                              \
    _Pragma("unroll") for (int p = 0; p < COUNT; ++p) {                                            \
      const uchars_t pair = LOAD(((ulong)group * 16 + i) * PIECES, levels_at[p]);                  \
      low[p] = low_levels_of(pair);                                                                \
      high[p] = high_levels_of(pair);                                                              \
    }                                                                                              \
    _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                           \
      const value_t first = input_at(x[t], low_k), second = input_at(x[t], high_k);                \
      _Pragma("unroll") for (int p = 0; p < COUNT; ++p) {                                          \
        parts[t][p] = plus_products(low[p], first, parts[t][p]);                                   \
        parts[t][p] = plus_products(high[p], second, parts[t][p]);                                 \
      }                                                                                            \
    }                                                                                              \
  }
#else
#define ADD_GROUP(TOKENS, COUNT)                                                                   \
  const uint end = min((group + 1) * (uint)GROUP, k);                                              \
  for (uint i = group * GROUP; i < end; ++i) ADD_K(TOKENS, COUNT, i)
#endif

#if IS_EXACT
// The sums of a group are whole numbers. As floats they fit the 24 bits of one exactly.
#define ADD_PARTS(TOKENS)                                                                          \
  _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) sums[t][p] += TO_INTS(parts[t][p]);
// Every lane multiplies in this order, so that all have the same bits.
#define FINISH                                                                                     \
  floats_t value = TO_FLOATS(sum) * (floats_t)(group_x[inputs[t]]);                                \
  value *= LOAD(pieces[p], scales);
#else
#define GROUP_AT(P)                                                                                \
  (((ulong)(pieces[P] / PIECES) * n_groups + group) * PIECES + pieces[P] % PIECES)
#if HALF
// Each group of a token has two numbers: what its activations were divided by, and their sum.
#define GROUP_X(T) (group_x + ((ulong)inputs[T] * n_groups + group) * 2)
#define PART(T, P) (TO_FLOATS(parts[T][P]) * GROUP_X(T)[0])
#define GROUP_SUM(T) GROUP_X(T)[1]
#define LESS(MINIMUM) (scale * MIDDLE - (MINIMUM))
#else
#define LESS(MINIMUM) (-(MINIMUM))
#define PART(T, P) parts[T][P]
#define GROUP_SUM(T) group_x[(ulong)inputs[T] * n_groups + group]
#endif
#if HAS_SCALES
#define SCALED(PART, SUM) fma(PART, scale, SUM)
#define LOAD_SCALE const floats_t scale = LOAD(GROUP_AT(p), scales);
#else
#define SCALED(PART, SUM) ((SUM) + (PART))
#define LOAD_SCALE
#endif
#if HAS_MINIMA
#define LOAD_MINIMUM const floats_t minimum = LESS(LOAD(GROUP_AT(p), minima));
#define LESS_MINIMUM(SUM) fma(minimum, (floats_t)(GROUP_SUM(t)), SUM)
#else
#define LOAD_MINIMUM
#define LESS_MINIMUM(SUM) (SUM)
#endif
#define ADD_PARTS(TOKENS)                                                                          \
  LOAD_SCALE LOAD_MINIMUM _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                     \
    sums[t][p] = LESS_MINIMUM(SCALED(PART(t, p), sums[t][p]));                                     \
  }
#define FINISH floats_t value = sum;
#endif

#if ROWS == 16
PRODUCT(product_8, 8, 2)
PRODUCT(product_4, 4, 4)
PRODUCT(product_1, 1, 4)
#else
PRODUCT(product_8, 8, 1)
PRODUCT(product_4, 4, 1)
PRODUCT(product_1, 1, 1)
#endif

#if !IS_EXACT
// Sums the activations of each group of each token. Products need the sums to subtract the minima.
__kernel void sum_groups(__global const float* all_x, ulong x_offset, uint k,
                         __global float* group_x) {
  const uint group = get_global_id(0), token = get_global_id(1);
  const uint n_groups = (k + GROUP - 1) / GROUP;
  __global const float* x = all_x + x_offset + (ulong)token * k;
  const uint end = min((group + 1) * (uint)GROUP, k);
  float sum = 0.0f;
  for (uint i = group * GROUP; i < end; ++i) sum += x[i];
  group_x[(ulong)token * n_groups + group] = sum;
}

#if HALF
// Brings the activations of each group of each token to 1 at most, as halves.
__kernel void narrow_groups(__global const float* all_x, ulong x_offset, uint k,
                            __global half* halves, __global float* group_x) {
  const uint group = get_global_id(0), token = get_global_id(1);
  const uint n_groups = (k + GROUP - 1) / GROUP;
  __global const float* x = all_x + x_offset + (ulong)token * k;
  const uint end = min((group + 1) * (uint)GROUP, k);
  float largest = 0.0f, sum = 0.0f;
  for (uint i = group * GROUP; i < end; ++i) largest = fmax(largest, fabs(x[i]));
  // The largest number is below 2 to this power. The bounds keep both factors normal numbers; what
  // is below them becomes 0, and what is above them stays below 4.
  const int power = clamp((int)(as_uint(largest) >> 23) - 126, -100, 126);
  const float down = as_float((uint)(127 - power) << 23);
  for (uint i = group * GROUP; i < end; ++i) {
    vstore_half_rte(x[i] * down, (ulong)token * k + i, halves);
    sum += x[i];
  }
  __global float* numbers = group_x + ((ulong)token * n_groups + group) * 2;
  numbers[0] = as_float((uint)(127 + power) << 23);
  numbers[1] = sum;
}
#endif

// Reads one group of a token's row of the embedding table.
__kernel void embed(__global const stored_t* w, __global const float* scales,
                    __global const float* minima, uint k, float factor,
                    __global const uchar* run, ulong tokens_offset, __global float* all_y,
                    ulong y_offset) {
  const uint group = get_global_id(0), token = get_global_id(1);
  const uint row = ((__global const uint*)(run + tokens_offset))[token];
  const uint n_groups = (k + GROUP - 1) / GROUP;
  const ulong strip = row / 16;
  const uint end = min((group + 1) * (uint)GROUP, k);
  __global float* y = all_y + y_offset + (ulong)token * k;
  for (uint i = group * GROUP; i < end; ++i) {
    float value = level_of(w + strip * STRIP_ITEMS(k), i, row % 16);
#if HAS_SCALES
    value *= scales[(strip * n_groups + group) * 16 + row % 16];
#endif
#if HAS_MINIMA
    value -= minima[(strip * n_groups + group) * 16 + row % 16];
#endif
    y[i] = factor == 1.0f ? value : value * factor;
  }
}
#endif
