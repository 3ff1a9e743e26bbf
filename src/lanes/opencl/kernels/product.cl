// Computes products of weights in panels with activations, and reads rows of an embedding table.
//
// A strip is 16 rows of a weight side by side: (k, 16), with a scale and perhaps a minimum for each
// row and group of k: (n_groups, 16). weight = scale * level - minimum, or the level itself.
// FORM   how a level is stored        GROUP     k of a group
// HAS_SCALES, HAS_MINIMA              IS_EXACT  levels of both sides are whole numbers, sums int32
// BASE   what a nibble of 0 stands for
// MIDDLE  where levels with minima lie around
// DOT    the function that multiplies 4 bytes with 4 and adds the products, for QUADS
// HALF   1: levels, activations and sums of a group are half floats; 2: floats that are rounded so
//
// QUADS are exact, and every k stands for 4 of the product's: 4 levels of a row, and 4 of a token,
// are the bytes of one number.
//
// Halves hold levels exactly, and nothing above 65504. So a token's activations of a group are
// multiplied with a power of two that brings them to 1 at most. The sum of a group is at most 128 *
// 32 then. Levels with minima have MIDDLE subtracted, so that sums are smaller and keep more bits;
// the minimum makes up for it.
//
// Each element is summed in the order of k within its group, then group by group. So its bits do not
// depend on how many tokens and strips a work item takes.
#pragma OPENCL FP_CONTRACT OFF

#define FLOATS 0
#define HALVES 1
#define BFLOATS 2
#define BYTES 3
#define NIBBLES 4
#define QUADS 5

#if FORM == QUADS
#ifdef cl_khr_integer_dot_product
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#endif
typedef uint stored_t;
typedef uint input_t;
typedef uint value_t;
typedef uint16 levels_t;
typedef int16 part_t;
value_t input_at(__global const input_t* x, ulong k) { return x[k]; }
levels_t levels_of(__global const uint* w, ulong k) { return vload16(k, w); }
// Does what the device's own function does, where it has none.
int dot_of_bytes(uint a, uint b) {
  const char4 p = as_char4(a), q = as_char4(b);
  return p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
}
int16 dots_of(uint16 a, uint b) {
  return (int16)(DOT(a.s0, b), DOT(a.s1, b), DOT(a.s2, b), DOT(a.s3, b), DOT(a.s4, b),
                 DOT(a.s5, b), DOT(a.s6, b), DOT(a.s7, b), DOT(a.s8, b), DOT(a.s9, b),
                 DOT(a.sa, b), DOT(a.sb, b), DOT(a.sc, b), DOT(a.sd, b), DOT(a.se, b),
                 DOT(a.sf, b));
}
part_t plus_products(levels_t levels, value_t x, part_t sum) { return sum + dots_of(levels, x); }
#elif HALF == 1
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half input_t;
typedef half value_t;
typedef half16 levels_t;
typedef half16 part_t;
#define TO_LEVELS convert_half16
value_t input_at(__global const input_t* x, ulong k) { return x[k]; }
part_t plus_products(levels_t levels, value_t x, part_t sum) {
  return fma(levels, (half16)(x), sum);
}
#elif HALF == 2
typedef half input_t;
typedef float value_t;
typedef float16 levels_t;
typedef float16 part_t;
#define TO_LEVELS convert_float16
value_t input_at(__global const input_t* x, ulong k) { return vload_half(k, x); }
part_t plus_products(levels_t levels, value_t x, part_t sum) {
  ushort bits[16];
  vstore_half16_rte(fma(levels, (float16)(x), sum), 0, (__private half*)bits);
  return vload_half16(0, (__private half*)bits);
}
#else
typedef float input_t;
typedef float value_t;
typedef float16 levels_t;
typedef float16 part_t;
#define TO_LEVELS convert_float16
value_t input_at(__global const input_t* x, ulong k) { return x[k]; }
part_t plus_products(levels_t levels, value_t x, part_t sum) {
  return fma(levels, (float16)(x), sum);
}
#endif

#if HALF
#define LEVEL_BASE (BASE + MIDDLE)
#else
#define LEVEL_BASE BASE
#endif

#if FORM == FLOATS
typedef float stored_t;
float16 levels_of(__global const float* w, ulong k) { return vload16(k, w); }
float level_of(__global const float* w, ulong k, uint row) { return w[k * 16 + row]; }
#elif FORM == HALVES
typedef half stored_t;
float16 levels_of(__global const half* w, ulong k) { return vload_half16(k, w); }
float level_of(__global const half* w, ulong k, uint row) { return vload_half(k * 16 + row, w); }
#elif FORM == BFLOATS
typedef ushort stored_t;
float16 levels_of(__global const ushort* w, ulong k) {
  return as_float16(convert_uint16(vload16(k, w)) << 16);
}
float level_of(__global const ushort* w, ulong k, uint row) {
  return as_float((uint)w[k * 16 + row] << 16);
}
#elif FORM == BYTES
typedef char stored_t;
levels_t levels_of(__global const char* w, ulong k) {
  return TO_LEVELS(vload16(k, w) - (char)LEVEL_BASE);
}
float level_of(__global const char* w, ulong k, uint row) { return (float)w[k * 16 + row]; }
#elif FORM == NIBBLES
// Byte i of 32 k holds k = i in its low half and k = i + 16 in its high one.
typedef uchar stored_t;
levels_t low_levels_of(uchar16 pair) {
  return TO_LEVELS(convert_char16(pair & (uchar)15) - (char)LEVEL_BASE);
}
levels_t high_levels_of(uchar16 pair) {
  return TO_LEVELS(convert_char16(pair >> (uchar)4) - (char)LEVEL_BASE);
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
typedef int16 sum_t;
#else
typedef float16 sum_t;
#endif

// Defines a kernel that computes y[t][row] for TOKENS tokens and STRIPS strips, from the work item's
// (global id 0, global id 1) on.
#define PRODUCT(NAME, TOKENS, STRIPS)                                                              \
  __kernel void NAME(__global const stored_t* w, __global const float* scales,                     \
                     __global const float* minima, __global const float* bias, uint k,             \
                     uint first_row, uint last_row, uint has_bias, uint y_stride,                  \
                     __global const input_t* all_x, ulong x_offset,                                \
                     __global const float* group_x, __global float* all_y, ulong y_offset,         \
                     uint first_token, uint n_tokens) {                                            \
    const uint token = first_token + (uint)get_global_id(0) * TOKENS;                              \
    const uint n_strips = (last_row - first_row + 15) / 16;                                        \
    const uint strip = (uint)get_global_id(1) * STRIPS;                                            \
    const uint n_groups = (k + GROUP - 1) / GROUP;                                                 \
    __global const input_t* x[TOKENS];                                                             \
    __global const stored_t* strips[STRIPS];                                                       \
    uint tokens[TOKENS], indices[STRIPS];                                                          \
    sum_t sums[TOKENS][STRIPS];                                                                    \
    _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                           \
      tokens[t] = min(token + (uint)t, n_tokens - 1);                                              \
      x[t] = all_x + x_offset + (ulong)tokens[t] * k;                                              \
    }                                                                                              \
    _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) {                                           \
      indices[p] = min(strip + (uint)p, n_strips - 1);                                             \
      strips[p] = w + indices[p] * STRIP_ITEMS(k);                                                 \
    }                                                                                              \
    _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                           \
      _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) sums[t][p] = (sum_t)0;                    \
    }                                                                                              \
    for (uint group = 0; group < n_groups; ++group) {                                              \
      part_t parts[TOKENS][STRIPS];                                                                \
      _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                         \
        _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) parts[t][p] = (part_t)0;                \
      }                                                                                            \
      ADD_GROUP(TOKENS, STRIPS)                                                                    \
      _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) {                                         \
        ADD_PARTS(TOKENS)                                                                          \
      }                                                                                            \
    }                                                                                              \
    _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) {                                           \
      const uint row = first_row + indices[p] * 16;                                                \
      _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                         \
        if (token + t >= n_tokens || strip + p >= n_strips) continue;                              \
        FINISH                                                                                     \
        __global float* y = all_y + y_offset + (ulong)tokens[t] * y_stride + row;                  \
        if (row + 16 <= last_row) {                                                                \
          if (has_bias) value += vload16(0, bias + row);                                           \
          vstore16(value, 0, y);                                                                   \
          continue;                                                                                \
        }                                                                                          \
        float values[16];                                                                          \
        vstore16(value, 0, values);                                                                \
        for (uint r = 0; row + r < last_row; ++r) {                                                \
          y[r] = has_bias ? values[r] + bias[row + r] : values[r];                                 \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }

#define ADD_K(TOKENS, STRIPS, K)                                                                   \
  {                                                                                                \
    levels_t levels[STRIPS];                                                                       \
    _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) levels[p] = levels_of(strips[p], K);        \
    _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                           \
      const value_t of_token = input_at(x[t], K);                                                  \
      _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) {                                         \
        parts[t][p] = plus_products(levels[p], of_token, parts[t][p]);                             \
      }                                                                                            \
    }                                                                                              \
  }

#if FORM == NIBBLES
#define ADD_GROUP(TOKENS, STRIPS)                                                                  \
  for (uint i = 0; i < 16; ++i) {                                                                  \
    const uint low_k = group * 32 + i, high_k = low_k + 16;                                        \
    levels_t low[STRIPS], high[STRIPS];                                                            \
    _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) {                                           \
      const uchar16 pair = vload16((ulong)group * 16 + i, strips[p]);                              \
      low[p] = low_levels_of(pair);                                                                \
      high[p] = high_levels_of(pair);                                                              \
    }                                                                                              \
    _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                                           \
      const value_t first = input_at(x[t], low_k), second = input_at(x[t], high_k);                \
      _Pragma("unroll") for (int p = 0; p < STRIPS; ++p) {                                         \
        parts[t][p] = plus_products(low[p], first, parts[t][p]);                                   \
        parts[t][p] = plus_products(high[p], second, parts[t][p]);                                 \
      }                                                                                            \
    }                                                                                              \
  }
#else
#define ADD_GROUP(TOKENS, STRIPS)                                                                  \
  const uint end = min((group + 1) * (uint)GROUP, k);                                              \
  for (uint i = group * GROUP; i < end; ++i) ADD_K(TOKENS, STRIPS, i)
#endif

#if IS_EXACT
// The sums of a group are whole numbers. As floats they fit the 24 bits of one exactly.
#define ADD_PARTS(TOKENS)                                                                          \
  _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) sums[t][p] += convert_int16(parts[t][p]);
// Every lane multiplies in this order, so that all have the same bits.
#define FINISH                                                                                     \
  float16 value = convert_float16(sums[t][p]) * (float16)(group_x[tokens[t]]);                     \
  value *= vload16(indices[p], scales);
#else
#if HALF
// Each group of a token has two numbers: what its activations were divided by, and their sum.
#define GROUP_X(T) (group_x + ((ulong)tokens[T] * n_groups + group) * 2)
#define PART(T, P) (convert_float16(parts[T][P]) * GROUP_X(T)[0])
#define GROUP_SUM(T) GROUP_X(T)[1]
#define LESS(MINIMUM) (scale * MIDDLE - (MINIMUM))
#else
#define LESS(MINIMUM) (-(MINIMUM))
#define PART(T, P) parts[T][P]
#define GROUP_SUM(T) group_x[(ulong)tokens[T] * n_groups + group]
#endif
#if HAS_SCALES
#define SCALED(PART, SUM) fma(PART, scale, SUM)
#define LOAD_SCALE const float16 scale = vload16((ulong)indices[p] * n_groups + group, scales);
#else
#define SCALED(PART, SUM) ((SUM) + (PART))
#define LOAD_SCALE
#endif
#if HAS_MINIMA
#define LOAD_MINIMUM                                                                               \
  const float16 minimum = LESS(vload16((ulong)indices[p] * n_groups + group, minima));
#define LESS_MINIMUM(SUM) fma(minimum, (float16)(GROUP_SUM(t)), SUM)
#else
#define LOAD_MINIMUM
#define LESS_MINIMUM(SUM) (SUM)
#endif
#define ADD_PARTS(TOKENS)                                                                          \
  LOAD_SCALE LOAD_MINIMUM _Pragma("unroll") for (int t = 0; t < TOKENS; ++t) {                     \
    sums[t][p] = LESS_MINIMUM(SCALED(PART(t, p), sums[t][p]));                                    \
  }
#define FINISH float16 value = sums[t][p];
#endif

PRODUCT(product_8, 8, 2)
PRODUCT(product_4, 4, 4)
PRODUCT(product_1, 1, 4)

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
