#include "convert/safetensors_header.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::convert {
namespace {

constexpr size_t kMostDimensions = 8;
constexpr size_t kMostNameBytes = 1024;

// Follows the events of a text like {"NAME": {"dtype": "F32", "shape": [1], "data_offsets": [0,
// 4]}, "__metadata__": {"k": "v"}}.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(std::string_view file) : file_(file) {}

  std::vector<HeaderTensor> take() { return std::move(tensors_); }

  bool null() override { fail("a null"); }
  bool boolean(bool) override { fail("true or false"); }
  bool number_integer(number_integer_t) override { fail("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { fail("a fraction"); }
  bool binary(binary_t&) override { fail("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (tensor_.shape.size() == kMostDimensions) fail("a shape of too many dimensions");
      tensor_.shape.push_back(value);
    } else if (state_ == State::kOffsets && n_offsets_ < 2) {
      (n_offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
    } else {
      fail("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) return true;
    if (state_ != State::kTensor || field_ != "dtype") fail("a text");
    tensor_.dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    switch (state_) {
      case State::kStart:
        state_ = State::kTop;
        break;
      case State::kTop:
        state_ = tensor_.name == "__metadata__" ? State::kMetadata : State::kTensor;
        break;
      default:
        fail("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    if (state_ == State::kTop) {
      if (name.empty() || name.size() > kMostNameBytes) fail("a name of a wrong length");
      if (!names_.insert(name).second) {
        throw Error(fmt::format(
            "{}: the name {} stands there twice. The file is damaged; download it again.", file_,
            troika::quoted(name)));
      }
      tensor_ = {};
      tensor_.name = name;
      fields_ = n_offsets_ = 0;
    } else if (state_ == State::kTensor) {
      field_ = name;
      const unsigned bit = name == "dtype"          ? 1
                           : name == "shape"        ? 2
                           : name == "data_offsets" ? 4
                                                    : 0;
      if (bit == 0 || (fields_ & bit) != 0) fail(fmt::format("the field {}", troika::quoted(name)));
      fields_ |= bit;
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) {
      if (fields_ != 7 || n_offsets_ != 2) fail("a tensor without dtype, shape or data_offsets");
      tensors_.push_back(std::move(tensor_));
    }
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (state_ != State::kTensor || field_ == "dtype") fail("a list");
    state_ = field_ == "shape" ? State::kShape : State::kOffsets;
    return true;
  }
  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error(fmt::format("{}: its header is no JSON at byte {}. {}", file_, 8 + position,
                            "The file is damaged; download it again."));
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(fmt::format(
        "{}: its header holds {} where none belongs{}. The file is damaged or no safetensors file; "
        "download it again.",
        file_, what,
        tensor_.name.empty() ? "" : fmt::format(" (in {})", troika::quoted(tensor_.name))));
  }

  std::string_view file_;
  State state_ = State::kStart;
  HeaderTensor tensor_;
  std::string field_;
  unsigned fields_ = 0;
  int n_offsets_ = 0;
  std::vector<HeaderTensor> tensors_;
  // This is no hash table, because whoever makes a file could choose names of one hash.
  std::set<std::string> names_;
};

}  // namespace

std::vector<HeaderTensor> read_safetensors_header(std::string_view text, std::string_view file) {
  Handler handler(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
  return handler.take();
}

}  // namespace troika::convert
