#include "gguf/split.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::gguf {
namespace {

constexpr std::string_view kEnd = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;
constexpr uint32_t kMostShards = 65535;  // a uint16, with which such files count, holds no more

constexpr char kAdvice[] = "Put all parts of one model, as they were downloaded, into one folder";

std::optional<uint32_t> read_digits(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Takes away the last `n` characters and returns them; returns nothing where there are fewer.
std::string_view take_end(std::string_view& text, size_t n) {
  if (text.size() < n) return {};
  const std::string_view end = text.substr(text.size() - n);
  text.remove_suffix(n);
  return end;
}

std::optional<uint64_t> find_count(const Header& header, std::string_view key,
                                   std::string_view name, uint64_t most) {
  const auto found = header.entry_by_key.find(key);
  if (found == header.entry_by_key.end()) return std::nullopt;
  const Value& value = header.metadata[found->second].value;
  uint64_t number = most + 1;
  if (const auto* u = std::get_if<uint64_t>(&value.data)) number = *u;
  if (const auto* i = std::get_if<int64_t>(&value.data); i != nullptr && *i >= 0) {
    number = static_cast<uint64_t>(*i);
  }
  if (value.type == ValueType::kBool || number > most) {
    throw Error(fmt::format(
        "{}: the metadata {} is no number up to {}. The file is damaged; download or split it "
        "again.",
        name, quoted(key), most));
  }
  return number;
}

std::string_view find_text(const Header& header, std::string_view key) {
  const auto found = header.entry_by_key.find(key);
  if (found == header.entry_by_key.end()) return {};
  const auto* text = std::get_if<std::string_view>(&header.metadata[found->second].value.data);
  return text == nullptr ? std::string_view() : *text;
}

}  // namespace

std::string ShardName::path_of(uint32_t n) const {
  return fmt::format("{}-{:05}{}{:05}{}", stem, n, kOf, count, kEnd);
}

std::optional<ShardName> parse_shard_name(std::string_view path) {
  std::string_view rest = path;
  if (take_end(rest, kEnd.size()) != kEnd) return std::nullopt;
  const auto count = read_digits(take_end(rest, kDigits));
  if (take_end(rest, kOf.size()) != kOf) return std::nullopt;
  const auto number = read_digits(take_end(rest, kDigits));
  if (take_end(rest, 1) != "-" || rest.empty() || !count || !number) return std::nullopt;
  if (*number < 1 || *number > *count || *count > kMostShards) return std::nullopt;
  return ShardName{std::string(rest), *number, *count};
}

SplitFacts split_facts(const Header& header, std::string_view name) {
  SplitFacts facts;
  const auto count = find_count(header, "split.count", name, kMostShards);
  if (count.value_or(1) <= 1) return facts;
  facts.count = static_cast<uint32_t>(*count);
  const auto index = find_count(header, "split.no", name, kMostShards);
  if (!index || *index >= *count) {
    throw Error(fmt::format(
        "{}: it says that it is one of {} parts of a model, but not which (split.no is missing or "
        "too large). The file is damaged; download or split it again.",
        name, *count));
  }
  facts.number = static_cast<uint32_t>(*index) + 1;
  facts.n_tensors = find_count(header, "split.tensors.count", name, uint64_t{INT64_MAX});
  return facts;
}

void check_shard(const Header& shard, std::string_view shard_name, uint32_t number,
                 const Header& first, std::string_view first_name) {
  const SplitFacts facts = split_facts(shard, shard_name);
  const SplitFacts wanted = split_facts(first, first_name);
  if (facts.number != number || facts.count != wanted.count) {
    throw Error(
        fmt::format("{}: by its header it is part {} of {}, by its name part {} of {}; it "
                    "was renamed or belongs to another model. {}.",
                    shard_name, facts.number, facts.count, number, wanted.count, kAdvice));
  }
  if (facts.n_tensors != wanted.n_tensors) {
    throw Error(
        fmt::format("{}: it belongs to another model than {} (a model of {} tensors, not "
                    "{}). {}.",
                    shard_name, first_name, facts.n_tensors.value_or(0),
                    wanted.n_tensors.value_or(0), kAdvice));
  }
  // Only the first shard has to say what the model is.
  for (const char* key : {"general.architecture", "general.name"}) {
    const std::string_view theirs = find_text(shard, key);
    if (theirs.empty() || theirs == find_text(first, key)) continue;
    throw Error(fmt::format("{}: it belongs to another model than {} ({} is {}, not {}). {}.",
                            shard_name, first_name, key, quoted(theirs),
                            quoted(find_text(first, key)), kAdvice));
  }
}

}  // namespace troika::gguf
