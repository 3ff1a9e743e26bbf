#include <algorithm>
#include <cmath>

#include "kernels/reference/columns.h"
#include "kernels/reference/matmul.h"
#include "kernels/reference/outliers.h"
#include "kernels/reference/panels.h"
#include "kernels/reference/reference.h"

namespace troika::kernels::reference {
namespace {

void rms_norm(const float* x, const float* weight, float eps, float* y, size_t n) {
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * x[i];
  const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
  for (size_t i = 0; i < n; ++i) {
    y[i] = static_cast<float>(x[i] * factor * (weight != nullptr ? weight[i] : 1));
  }
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y,
                size_t n) {
  double mean = 0, variance = 0;
  for (size_t i = 0; i < n; ++i) mean += x[i];
  mean /= static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const double factor = 1 / std::sqrt(variance / static_cast<double>(n) + eps);
  for (size_t i = 0; i < n; ++i) {
    const double value = (x[i] - mean) * factor * (weight != nullptr ? weight[i] : 1);
    y[i] = static_cast<float>(value + (bias != nullptr ? bias[i] : 0));
  }
}

// Turns the point (a, b) by an angle.
void rotate(float& a, float& b, double cos, double sin) {
  const double old_a = a;
  a = static_cast<float>(old_a * cos - b * sin);
  b = static_cast<float>(old_a * sin + b * cos);
}

void rope_normal(float* x, size_t n_heads, size_t head_stride, size_t n_rot, const float* cos,
                 const float* sin) {
  for (size_t h = 0; h < n_heads; ++h, x += head_stride) {
    for (size_t i = 0; i < n_rot / 2; ++i) rotate(x[2 * i], x[2 * i + 1], cos[i], sin[i]);
  }
}

void rope_neox(float* x, size_t n_heads, size_t head_stride, size_t n_rot, const float* cos,
               const float* sin) {
  for (size_t h = 0; h < n_heads; ++h, x += head_stride) {
    for (size_t i = 0; i < n_rot / 2; ++i) rotate(x[i], x[i + n_rot / 2], cos[i], sin[i]);
  }
}

double silu_of(double x) { return x / (1 + std::exp(-x)); }

double gelu_of(double x) {
  constexpr double kRootOfTwoOverPi = 0.79788456080286535588;
  return 0.5 * x * (1 + std::tanh(kRootOfTwoOverPi * (x + 0.044715 * x * x * x)));
}

double relu_of(double x) { return std::max(x, 0.0); }

template <double (*kFunction)(double)>
void apply(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(kFunction(x[i]));
}

template <double (*kFunction)(double)>
void apply_and_multiply(const float* gate, const float* up, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(kFunction(gate[i]) * up[i]);
}

void add(const float* a, const float* b, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

void scale(const float* x, float factor, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

void soft_cap(const float* x, float cap, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(cap * std::tanh(x[i] / cap));
}

double exp_of(double x) { return std::exp(x); }

void softmax(const float* x, float* y, size_t n) {
  if (n == 0) return;
  const double largest = *std::max_element(x, x + n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exp(x[i] - largest);
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(std::exp(x[i] - largest) / sum);
}

size_t argmax(const float* x, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; ++i) {
    if (x[i] > x[best] || std::isnan(x[best])) best = i;
  }
  return std::isnan(x[best]) ? 0 : best;
}

size_t count_above(const float* x, size_t n, float limit) {
  return static_cast<size_t>(std::count_if(x, x + n, [limit](float v) { return v > limit; }));
}

size_t find_above(const float* x, size_t n, float limit, uint32_t* out) {
  size_t found = 0;
  for (size_t i = 0; i < n; ++i) {
    if (x[i] > limit) out[found++] = static_cast<uint32_t>(i);
  }
  return found;
}

// Gives the table a function with the type as its template parameter.
template <Type kType, auto kFunction>
struct WithType;
template <Type kType, typename Result, typename... Arguments,
          Result (*kFunction)(Type, Arguments...)>
struct WithType<kType, kFunction> {
  static Result call(Arguments... arguments) { return kFunction(kType, arguments...); }
};

}  // namespace

constinit const Table kTable = {
    .matmul_f32 =
        by_type<MatmulF32>([]<Type kType>() { return WithType<kType, matmul_f32>::call; }),
    .matmul_q8 = by_type<MatmulQ8>([]<Type kType>() { return WithType<kType, matmul_q8>::call; }),
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
    .silu_mul = apply_and_multiply<silu_of>,
    .gelu_mul = apply_and_multiply<gelu_of>,
    .relu_mul = apply_and_multiply<relu_of>,
    .silu = apply<silu_of>,
    .gelu = apply<gelu_of>,
    .relu = apply<relu_of>,
    .add = add,
    .scale = scale,
    .soft_cap = soft_cap,
    .exp = apply<exp_of>,
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
    .unpack_bf16 =
        by_type<UnpackBf16>([]<Type kType>() { return WithType<kType, unpack_bf16>::call; }),
    .largest_of_row =
        by_type<LargestOfRow>([]<Type kType>() { return WithType<kType, largest_of_row>::call; }),
    .unpack_int8 =
        by_type<UnpackInt8>([]<Type kType>() { return WithType<kType, unpack_int8>::call; }),
    .quantize_int8_within = quantize_int8_within,
    .add_outliers = add_outliers,
    .multiply_channels = multiply_channels,
};

}  // namespace troika::kernels::reference
