// Computes ops that go row by row, or element by element. STRETCH counts the elements of a work
// item.
#pragma OPENCL FP_CONTRACT OFF

// Returns the sum of 16 floats, always added in the same order.
float sum_of(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}

// Normalizes n elements: one head of a row, or the whole row.
__kernel void rms_norm(__global const float* weight, uint has_weight, float eps, uint n,
                       __global const float* all_x, ulong x_offset, __global float* all_y,
                       ulong y_offset) {
  const ulong row = get_global_id(0);
  __global const float* x = all_x + x_offset + row * n;
  __global float* y = all_y + y_offset + row * n;
  float16 squares = (float16)0.0f;
  uint i = 0;
  for (; i + 16 <= n; i += 16) {
    const float16 v = vload16(0, x + i);
    squares = fma(v, v, squares);
  }
  float sum = sum_of(squares);
  for (uint j = i; j < n; ++j) sum = fma(x[j], x[j], sum);
  const float factor = 1.0f / sqrt(sum / (float)n + eps);
  for (i = 0; i + 16 <= n; i += 16) {
    float16 v = vload16(0, x + i) * factor;
    if (has_weight) v *= vload16(0, weight + i);
    vstore16(v, 0, y + i);
  }
  for (; i < n; ++i) y[i] = has_weight ? x[i] * factor * weight[i] : x[i] * factor;
}

__kernel void layer_norm(__global const float* weight, uint has_weight,
                         __global const float* bias, uint has_bias, float eps, uint n,
                         __global const float* all_x, ulong x_offset, __global float* all_y,
                         ulong y_offset) {
  const ulong row = get_global_id(0);
  __global const float* x = all_x + x_offset + row * n;
  __global float* y = all_y + y_offset + row * n;
  float16 sums = (float16)0.0f;
  uint i = 0;
  for (; i + 16 <= n; i += 16) sums += vload16(0, x + i);
  float sum = sum_of(sums);
  for (uint j = i; j < n; ++j) sum += x[j];
  const float mean = sum / (float)n;
  float16 squares = (float16)0.0f;
  for (i = 0; i + 16 <= n; i += 16) {
    const float16 v = vload16(0, x + i) - mean;
    squares = fma(v, v, squares);
  }
  sum = sum_of(squares);
  for (uint j = i; j < n; ++j) sum = fma(x[j] - mean, x[j] - mean, sum);
  const float factor = 1.0f / sqrt(sum / (float)n + eps);
  for (i = 0; i < n; ++i) {
    float v = (x[i] - mean) * factor;
    if (has_weight) v *= weight[i];
    y[i] = has_bias ? v + bias[i] : v;
  }
}

// Turns the pairs of one head of one token (RoPE), in place.
__kernel void turn_pairs(uint n_heads, uint head_dim, uint n_rotated, uint is_half_split,
                     uint first_pair, uint n_pairs, __global const uchar* run, ulong cos_offset,
                     ulong sin_offset, __global float* all_y, ulong y_offset) {
  const uint head = get_global_id(0);
  const ulong token = get_global_id(1);
  const ulong first = token * n_pairs + first_pair;
  __global const float* cosines = (__global const float*)(run + cos_offset) + first;
  __global const float* sines = (__global const float*)(run + sin_offset) + first;
  __global float* y = all_y + y_offset + (token * n_heads + head) * head_dim;
  for (uint i = 0; i < n_rotated / 2; ++i) {
    const uint at_a = is_half_split ? i : 2 * i;
    const uint at_b = is_half_split ? i + n_rotated / 2 : at_a + 1;
    const float a = y[at_a], b = y[at_b], c = cosines[i], s = sines[i];
    y[at_a] = a * c - b * s;
    y[at_b] = a * s + b * c;
  }
}

// Defines a kernel that computes elements [first, last) of each row of `width`, STRETCH of them in a
// work item.
#define ELEMENTS(NAME, VALUE)                                                                      \
  __kernel void NAME(uint width, uint first, uint last, float factor, __global const float* all_a, \
                     ulong a_offset, __global const float* all_b, ulong b_offset,                  \
                     __global float* all_y, ulong y_offset) {                                      \
    const uint begin = first + (uint)get_global_id(0) * STRETCH;                                   \
    const uint end = min(begin + STRETCH, last);                                                   \
    const ulong row = get_global_id(1) * (ulong)width;                                             \
    __global const float* a_row = all_a + a_offset + row;                                          \
    __global const float* b_row = all_b + b_offset + row;                                          \
    __global float* y_row = all_y + y_offset + row;                                                \
    uint i = begin;                                                                                \
    for (; i + 16 <= end; i += 16) {                                                               \
      const float16 a = vload16(0, a_row + i), b = vload16(0, b_row + i);                          \
      vstore16(VALUE, 0, y_row + i);                                                               \
    }                                                                                              \
    for (; i < end; ++i) {                                                                         \
      const float a = a_row[i], b = b_row[i];                                                      \
      y_row[i] = VALUE;                                                                            \
    }                                                                                              \
  }

#define SILU(A) ((A) / (1.0f + exp(-(A))))
#define GELU(A) (0.5f * (A) * (1.0f + tanh(0.79788456080286535588f * ((A) + 0.044715f * (A) * (A) * (A)))))
// fmax alone would make 0 of what is no number.
#define RELU(A) select(fmax(A, 0.0f), A, isnan(A))

ELEMENTS(add, a + b)
ELEMENTS(silu, SILU(a))
ELEMENTS(silu_mul, SILU(a) * b)
ELEMENTS(gelu, GELU(a))
ELEMENTS(gelu_mul, GELU(a) * b)
ELEMENTS(relu, RELU(a))
ELEMENTS(relu_mul, RELU(a) * b)
ELEMENTS(double_relu_mul, RELU(RELU(a) * b))
ELEMENTS(soft_cap, factor * tanh(a / factor))

// Multiplies each row by the sigmoid of one number.
__kernel void gate_by_sigmoid(uint width, __global const float* all_a, ulong a_offset,
                              __global const float* all_b, ulong b_offset, __global float* all_y,
                              ulong y_offset) {
  const ulong row = get_global_id(1);
  const float share = 1.0f / (1.0f + exp(-all_b[b_offset + row]));
  const uint begin = (uint)get_global_id(0) * STRETCH;
  const uint end = min(begin + STRETCH, width);
  for (uint i = begin; i < end; ++i) {
    all_y[y_offset + row * width + i] = all_a[a_offset + row * width + i] * share;
  }
}

// Copies the rows whose numbers stand in a list of the run.
__kernel void select_rows(uint width, __global const uchar* run, ulong rows_offset,
                          __global const float* all_x, ulong x_offset, __global float* all_y,
                          ulong y_offset) {
  const ulong row = get_global_id(1);
  const ulong from = ((__global const uint*)(run + rows_offset))[row];
  const uint begin = (uint)get_global_id(0) * STRETCH;
  const uint end = min(begin + STRETCH, width);
  for (uint i = begin; i < end; ++i) {
    all_y[y_offset + row * width + i] = all_x[x_offset + from * width + i];
  }
}
