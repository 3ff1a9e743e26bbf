#include "cli/json_stream.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace troika::cli {
namespace {

constexpr size_t kPieceBytes = 1 << 16;

}  // namespace

JsonStream::JsonStream(std::function<void(const std::string& piece)> write, int indent)
    : write_(std::move(write)), indent_(indent) {}

void JsonStream::new_line() {
  if (indent_ < 0) return;
  piece_ += '\n';
  piece_.append(static_cast<size_t>(indent_ * depth_), ' ');
}

void JsonStream::begin_item() {
  if (piece_.size() >= kPieceBytes) flush();
  if (std::exchange(has_key_, false)) return;
  if (!std::exchange(is_first_, false)) piece_ += ',';
  if (depth_ > 0) new_line();
}

void JsonStream::begin(char bracket) {
  begin_item();
  piece_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonStream::end(char bracket) {
  --depth_;
  if (!std::exchange(is_first_, false)) new_line();
  piece_ += bracket;
}

void JsonStream::key(std::string_view name) {
  begin_item();
  const nlohmann::json text = name;
  piece_ += text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  piece_ += indent_ < 0 ? ":" : ": ";
  has_key_ = true;
}

void JsonStream::value(const nlohmann::ordered_json& json) {
  begin_item();
  for (const char c : json.dump(indent_, ' ', false, nlohmann::json::error_handler_t::replace)) {
    // A line can end only between values: within texts it is escaped.
    c == '\n' ? new_line() : piece_.push_back(c);
  }
}

void JsonStream::flush() {
  if (!piece_.empty()) write_(piece_);
  piece_.clear();
}

}  // namespace troika::cli
