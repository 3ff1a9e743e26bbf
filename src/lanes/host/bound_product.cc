#include "lanes/host/bound_product.h"

#include "base/error.h"
#include "kernels/activations.h"

namespace troika::lanes {
namespace {

// Returns the function that reads the matrix as it stands.
template <typename Function>
Function* reader_of(const weights::Matrix& matrix, const kernels::ByType<Function>& of_rows,
                    const kernels::ByType<Function>& of_strips) {
  Function* function = kernels::find(matrix.n_strip_rows > 0 ? of_strips : of_rows, matrix.type);
  TROIKA_ASSERT(function != nullptr);
  return function;
}

void bind_float(BoundProduct* product, const kernels::Table& kernels) {
  TROIKA_ASSERT(product->weight.matrix.n_strip_rows == 0);
  product->matmul_f32 = kernels::find(kernels.matmul_f32, product->weight.matrix.type);
  TROIKA_ASSERT(product->matmul_f32 != nullptr);
}

// Says whether products of many tokens bring rows of the file side by side.
bool can_turn(const weights::Matrix& matrix, const kernels::Table& kernels) {
  return matrix.n_strip_rows == 0 && kernels.turned_from > 0 &&
         matrix.n_rows >= static_cast<int>(kernels::kStripRows) &&
         static_cast<size_t>(matrix.row_length) <= kernels::kMostStripDepth &&
         kernels::find(kernels.matmul_q8_strips, matrix.type) != nullptr;
}

// Makes the product take quantised activations. Where a whole matrix is multiplied in strips, all
// workers share blocks of activations that are made once.
void bind_q8(BoundProduct* product, bool is_of_experts, const kernels::Table& kernels) {
  const weights::Matrix& matrix = product->weight.matrix;
  product->form = InputForm::kQ8;
  product->matmul_q8 = reader_of(matrix, kernels.matmul_q8, kernels.matmul_q8_strips);
  if (can_turn(matrix, kernels)) {
    product->turned_from = kernels.turned_from;
    product->matmul_turned = kernels::find(kernels.matmul_q8_strips, matrix.type);
  }
  const bool has_strips_only =
      product->turned_from > 0 ? matrix.n_rows % static_cast<int>(kernels::kStripRows) == 0
                               : matrix.n_strip_rows > 0 && matrix.n_strip_rows == matrix.n_rows;
  kernels::MatmulSpread* spread = kernels::find(kernels.matmul_spread, matrix.type);
  if (has_strips_only && !is_of_experts && spread != nullptr) {
    product->form = InputForm::kSpread;
    product->matmul_spread = spread;
    product->spread_token = kernels::find(kernels.spread_token, matrix.type);
  }
}

// Makes the product take int8. Returns false where the weight neither stands in panels nor can be
// unpacked into them.
bool bind_int8(BoundProduct* product, model::WeightId id, const weights::Store& weights,
               const kernels::Table& kernels) {
  ProductWeight& weight = product->weight;
  weight.panels = weights.int8_panels(id);
  weight.row_largest = weights.row_largest(id);
  if (weight.panels == nullptr && weight.row_largest == nullptr) return false;
  product->form = InputForm::kInt8;
  if (weight.panels == nullptr) {
    product->unpack_int8 =
        reader_of(weight.matrix, kernels.unpack_int8, kernels.unpack_int8_strips);
  }
  return true;
}

void bind_bf16(BoundProduct* product, const kernels::Table& kernels) {
  product->form = InputForm::kBf16;
  product->unpack_bf16 =
      reader_of(product->weight.matrix, kernels.unpack_bf16, kernels.unpack_bf16_strips);
}

void bind_form(BoundProduct* product, const model::Op& op, const weights::Store& weights,
               const kernels::Table& kernels, const Precision& precision) {
  if (op.keeps_float) {
    bind_float(product, kernels);
    return;
  }
  if (precision.prefill == plan::Prefill::kF16) refuse_halves();
  const bool is_of_experts = op.kind == model::OpKind::kExpertLinear;
  const bool is_int8 = precision.prefill == plan::Prefill::kInt8;
  if (is_int8 && precision.int8_rules != nullptr) {
    product->int8_rule = (*precision.int8_rules)[static_cast<size_t>(op.weight)];
  }
  if (is_int8 && product->int8_rule.kind == Int8Rule::Kind::kGroup) {
    product->weight.matrix = weights.grouped(op.weight);
    bind_q8(product, is_of_experts, kernels);
    return;
  }
  if (is_int8 && bind_int8(product, op.weight, weights, kernels)) return;
  const bool is_float = tensor::is_float(product->weight.matrix.type);
  const bool is_q8 = precision.prefill == plan::Prefill::kQ8;
  // A matrix that has no form in whole numbers takes the next best.
  if (is_int8 || precision.prefill == plan::Prefill::kBf16 || (is_q8 && is_float)) {
    bind_bf16(product, kernels);
    return;
  }
  const bool is_exact = !is_q8 && (precision.activations == plan::Activations::kF32 ||
                                   precision.prefill == plan::Prefill::kF32);
  if (is_exact || is_float) {
    bind_float(product, kernels);
  } else {
    bind_q8(product, is_of_experts, kernels);
  }
}

}  // namespace

void refuse_halves() {
  throw Error(
      "Only OpenCL devices multiply prompts in half floats (‹prefill› f16), and this plan computes "
      "products of prompts on another lane. Name an OpenCL device in ‹lanes›, let ‹place› give it "
      "the products, or use ‹prefill› bf16.");
}

BoundProduct bind_product(const model::Op& op, const weights::Store& weights,
                          const kernels::Table& kernels, const Precision& precision) {
  BoundProduct product;
  product.weight.matrix = weights.matrix(op.weight);
  if (op.bias != model::kNone) product.bias = weights.vector(op.bias);
  bind_form(&product, op, weights, kernels, precision);
  return product;
}

void BoundProduct::take_rows() {
  if (form == InputForm::kSpread) form = InputForm::kQ8;
  spread_token = nullptr;
  matmul_spread = nullptr;
  turned_from = 0;
  matmul_turned = nullptr;
}

size_t form_bytes(InputForm form, size_t k) {
  switch (form) {
    case InputForm::kFloat:
      return 0;
    case InputForm::kQ8:
      return kernels::q8_row_bytes(k);
    case InputForm::kSpread:
      return kernels::n_token_blocks(k) * sizeof(kernels::TokenBlock);
    case InputForm::kInt8:
      return kernels::int8_token_bytes(k);
    case InputForm::kBf16:
      return kernels::bf16_token_bytes(k);
  }
  return 0;
}

}  // namespace troika::lanes
