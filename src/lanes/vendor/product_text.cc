#include "lanes/vendor/product_text.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

namespace troika::lanes::openvino {
namespace {

constexpr float kBounds[] = {-128.0f, 127.0f, 128.0f};
constexpr float kScale = 1.0f;
constexpr size_t kAlignment = 64;

size_t bounds_offset(const ProductShape& shape) {
  return (shape.weight_bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

size_t scales_offset(const ProductShape& shape) { return bounds_offset(shape) + kAlignment; }

struct ValueShape {
  const char* precision;
  int n_rows, n_columns;
};

// Names an output of a layer.
struct Output {
  int layer, port;
  ValueShape value;
};

class GraphText {
 public:
  // `notes` are for the compiler.
  Output add(const char* name, const char* type, const std::string& data,
             const std::vector<Output>& inputs, const ValueShape& output, const char* notes = "") {
    begin(name, type, data, inputs, notes);
    const auto port = static_cast<int>(inputs.size());
    layers_ += "<output>" + port_text(port, output) + "</output></layer>\n";
    return {n_layers_++, port, output};
  }

  Output constant(const char* name, const char* type, size_t offset, size_t bytes,
                  ValueShape value) {
    const std::string data = fmt::format(R"(element_type="{}" shape="{},{}" offset="{}" size="{}")",
                                         type, value.n_rows, value.n_columns, offset, bytes);
    return add(name, "Const", data, {}, value);
  }

  std::string result(const Output& of) {
    begin("y", "Result", "", {of});
    layers_ += "</layer>\n";
    return fmt::format(
        "<?xml version=\"1.0\"?>\n<net name=\"product\" version=\"11\"><layers>\n{}</layers>"
        "<edges>\n{}</edges></net>\n",
        layers_, edges_);
  }

 private:
  static std::string port_text(int id, const ValueShape& port) {
    return fmt::format(R"(<port id="{}" precision="{}"><dim>{}</dim><dim>{}</dim></port>)", id,
                       port.precision, port.n_rows, port.n_columns);
  }

  void begin(const char* name, const char* type, const std::string& data,
             const std::vector<Output>& inputs, const char* notes = "") {
    layers_ += fmt::format(R"(<layer id="{}" name="{}" type="{}" version="opset1">)", n_layers_,
                           name, type);
    if (!data.empty()) layers_ += "<data " + data + "/>";
    layers_ += notes;
    if (inputs.empty()) return;
    layers_ += "<input>";
    for (size_t i = 0; i < inputs.size(); ++i) {
      layers_ += port_text(static_cast<int>(i), inputs[i].value);
      edges_ += fmt::format(R"(<edge from-layer="{}" from-port="{}" to-layer="{}" to-port="{}"/>)",
                            inputs[i].layer, inputs[i].port, n_layers_, i) +
                "\n";
    }
    layers_ += "</input>";
  }

  std::string layers_, edges_;
  int n_layers_ = 0;
};

constexpr const char* kToFloat = R"(destination_type="f32")";
// Says that a constant is to be widened where it is used. Else the device keeps it widened, too.
constexpr const char* kWidenedWhereUsed =
    R"(<rt_info><attribute name="decompression" version="0"/></rt_info>)";
constexpr const char* kByRowsOfWeight = R"(transpose_a="false" transpose_b="true")";

std::string bf16_text(const ProductShape& shape) {
  GraphText text;
  const std::string data =
      fmt::format(R"(shape="{},{}" element_type="bf16")", shape.n_tokens, shape.k);
  const Output x = text.add("x", "Parameter", data, {}, {"BF16", shape.n_tokens, shape.k});
  const Output wide =
      text.add("x_float", "Convert", kToFloat, {x}, {"FP32", shape.n_tokens, shape.k});
  const Output weight =
      text.constant("w", "bf16", 0, shape.weight_bytes(), {"BF16", shape.n_rows, shape.k});
  const Output wide_weight = text.add("w_float", "Convert", kToFloat, {weight},
                                      {"FP32", shape.n_rows, shape.k}, kWidenedWhereUsed);
  const Output y = text.add("product", "MatMul", kByRowsOfWeight, {wide, wide_weight},
                            {"FP32", shape.n_tokens, shape.n_rows});
  return text.result(y);
}

}  // namespace

size_t constant_bytes(const ProductShape& shape) {
  if (shape.kind == ProductKind::kBf16) return shape.weight_bytes();
  return scales_offset(shape) + static_cast<size_t>(shape.n_rows) * sizeof(float);
}

void write_others(const ProductShape& shape, std::byte* constants) {
  if (shape.kind == ProductKind::kBf16) return;
  std::memcpy(constants + bounds_offset(shape), kBounds, sizeof(kBounds));
  std::byte* scale = constants + scales_offset(shape);
  for (int row = 0; row < shape.n_rows; ++row, scale += sizeof(kScale)) {
    std::memcpy(scale, &kScale, sizeof(kScale));
  }
}

std::string product_text(const ProductShape& shape) {
  if (shape.kind == ProductKind::kBf16) return bf16_text(shape);
  const ValueShape x = {"FP32", shape.n_tokens, shape.k}, one = {"FP32", 1, 1};
  const ValueShape w = {"FP32", shape.n_rows, shape.k};
  const size_t bounds = bounds_offset(shape);
  const std::string by_shape = R"(auto_broadcast="numpy")";
  GraphText text;
  const std::string data =
      fmt::format(R"(shape="{},{}" element_type="u8")", shape.n_tokens, shape.k);
  const Output levels = text.add("x", "Parameter", data, {}, {"U8", shape.n_tokens, shape.k});
  const Output wide = text.add("x_float", "Convert", kToFloat, {levels}, x);
  const auto bound = [&](const char* name, size_t i) {
    return text.constant(name, "f32", bounds + i * sizeof(float), sizeof(float), one);
  };
  const Output middle = bound("middle", 2);
  const Output centred = text.add("x_centred", "Subtract", by_shape, {wide, middle}, x);
  const std::vector<Output> range = {centred, bound("in_low", 0), bound("in_high", 1),
                                     bound("out_low", 0), bound("out_high", 1)};
  const Output bounded =
      text.add("x_bounded", "FakeQuantize", "levels=\"256\" " + by_shape, range, x);
  const Output weight =
      text.constant("w", "i8", 0, shape.weight_bytes(), {"I8", shape.n_rows, shape.k});
  const Output wide_weight = text.add("w_float", "Convert", kToFloat, {weight}, w);
  const size_t scale_bytes = static_cast<size_t>(shape.n_rows) * sizeof(float);
  const Output scale =
      text.constant("w_scale", "f32", scales_offset(shape), scale_bytes, {"FP32", shape.n_rows, 1});
  const Output scaled = text.add("w_scaled", "Multiply", by_shape, {wide_weight, scale}, w);
  const Output y = text.add("product", "MatMul", kByRowsOfWeight, {bounded, scaled},
                            {"FP32", shape.n_tokens, shape.n_rows});
  return text.result(y);
}

}  // namespace troika::lanes::openvino
