// Attention over the cache, as kernels of kernels/attention.cl.
#include <fmt/format.h>

#include "lanes/opencl/device_op.h"

namespace troika::lanes::opencl {
namespace {

constexpr int kLongestStretch = 16;  // the longest piece of a head that kernels load as one vector

// Returns the number by which attention.cl knows a type.
int number_of(tensor::Type type) {
  switch (type) {
    case tensor::Type::kF32:
      return 0;
    case tensor::Type::kF16:
      return 1;
    default:
      return 2;  // Q8_0
  }
}

int stretch_of(int head_dim) {
  int stretch = kLongestStretch;
  while (head_dim % stretch != 0) stretch /= 2;
  return stretch;
}

class Attention : public DeviceOp {
 public:
  Attention(const DeviceTools& tools, const BoundOp& bound, int n_kv_heads, tensor::Type type)
      : memory_(tools.memory),
        layer_(bound.op.layer),
        type_(type),
        n_heads_(static_cast<size_t>(bound.as<BoundAttention>().n_heads())),
        n_group_(static_cast<size_t>(bound.as<BoundAttention>().n_group)),
        q_(tools.place_of(bound.inputs[0])),
        k_(tools.place_of(bound.inputs[1])),
        v_(tools.place_of(bound.inputs[2])),
        y_(tools.place_of(bound.output)) {
    const auto& attention = bound.as<BoundAttention>();
    const std::string options = fmt::format("-DHEAD={} -DPIECE={} -DKV={}", attention.head_dim,
                                            stretch_of(attention.head_dim), number_of(type));
    const auto number = [](int n) { return static_cast<uint32_t>(n); };
    store_ = tools.programs.kernel("attention", options, "store_kv");
    store_->set(0, number(attention.first_head), number(n_kv_heads));
    attend_ = tools.programs.kernel("attention", options, "attend");
    attend_->set(0, number(attention.first_head * attention.n_group),
                 number(bound.output_width / attention.head_dim), number(attention.n_group),
                 number(bound.op.window), bound.op.scale, bound.op.soft_cap);
  }

  Int enqueue(const DeviceRun& run) override {
    const cache::KvCache& kv = *run.run.kv;
    const uint64_t stride = kv.page_stride_bytes();
    const Place keys = memory_.locate(kv.key_pages(layer_)[0]);
    const Place values = memory_.locate(kv.value_pages(layer_)[0]);
    if (stride == 0 || keys.buffer == nullptr || kv.shape().type != type_) return kForeignCache;
    const auto n_tokens = static_cast<size_t>(run.run.n_tokens);
    const auto at = [&](const Place& value) { return value.offset_floats() + run.set_offset; };
    store_->set(2, run.data.buffer(), run.data.slots(), k_.buffer, at(k_), v_.buffer, at(v_),
                keys.buffer, keys.offset_bytes, values.offset_bytes, stride);
    const Int status = store_->run(n_heads_, n_tokens);
    if (status != kOk) return status;
    attend_->set(6, run.data.buffer(), run.data.seen(), run.data.lists(), q_.buffer, at(q_),
                 y_.buffer, at(y_), keys.buffer, keys.offset_bytes, values.offset_bytes, stride);
    return attend_->run(n_heads_ * n_group_, n_tokens);
  }

 private:
  const SharedMemory& memory_;
  int layer_;
  tensor::Type type_;
  size_t n_heads_;  // counts this slice's heads of keys and values
  size_t n_group_;
  Place q_, k_, v_, y_;
  std::unique_ptr<BoundKernel> store_, attend_;
};

}  // namespace

std::unique_ptr<DeviceOp> make_attention(const DeviceTools& tools, const BoundOp& bound,
                                         int n_kv_heads, tensor::Type kv_type) {
  return std::make_unique<Attention>(tools, bound, n_kv_heads, kv_type);
}

}  // namespace troika::lanes::opencl
