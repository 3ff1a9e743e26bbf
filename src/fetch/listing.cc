#include "fetch/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_marks.h"
#include "base/os_error.h"
#include "fetch/name.h"

namespace troika::fetch {
namespace {

using nlohmann::json;

constexpr uint64_t kMostGitBytes = 100'000'000;     // larger files are kept beside git
constexpr uint64_t kMostBytes = uint64_t{1} << 50;  // a listing of a larger file lies
constexpr size_t kMostFiles = 20'000;
// A page has a thousand entries of some ten values each, and little within another.
constexpr size_t kMostValues = 500'000;
constexpr size_t kMostDepth = 8;

[[noreturn]] void refuse(std::string_view name, const std::string& problem) {
  throw Error(
      fmt::format("{}: the hub's list of files {}. Nothing was downloaded; look at the "
                  "repository with a browser, or at HF_ENDPOINT if that is set.",
                  name, problem));
}

// Refuses a page that would become far more than its bytes.
void check_extent(std::string_view text, std::string_view name) {
  size_t n_values = 0;
  visit_json_marks(text, [&](const JsonMark& mark) {
    if (mark.n_levels > kMostDepth) {
      refuse(name, fmt::format("is nested more than {} deep", kMostDepth));
    }
    n_values += mark.c == '[' || mark.c == '{' || mark.c == ',' ? 1 : 0;
    if (n_values > kMostValues) refuse(name, "has no end");
    return true;
  });
}

uint64_t size_of(const json& entry, std::string_view name, const std::string& path) {
  const auto found = entry.find("size");
  if (found == entry.end() || !found->is_number_unsigned() || found->get<uint64_t>() > kMostBytes) {
    refuse(name, fmt::format("gives no possible size of {}", troika::quoted(path)));
  }
  return found->get<uint64_t>();
}

// Returns the member "oid", which is a hash of `n_digits`, in lower case; empty where it is none.
std::string hash_in(const json& object, size_t n_digits) {
  const auto found = object.find("oid");
  std::string hash;
  if (found != object.end() && found->is_string()) hash = found->get<std::string>();
  // Some hubs write "sha256:" before the hash.
  if (hash.starts_with("sha256:")) hash.erase(0, 7);
  for (char& c : hash) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  const bool is_hash =
      hash.size() == n_digits && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_hash ? hash : std::string();
}

std::string sha256_of(const json& lfs, std::string_view name, const std::string& path) {
  std::string hash = hash_in(lfs, 64);
  if (hash.empty()) {
    refuse(name, fmt::format("gives no possible hash of {}", troika::quoted(path)));
  }
  return hash;
}

void add_entry(const json& entry, std::string_view name, Listing* listing) {
  const auto type = entry.find("type"), path = entry.find("path");
  if (type == entry.end() || path == entry.end() || !type->is_string() || !path->is_string()) {
    refuse(name, "has an entry without type or path");
  }
  HubFile file;
  file.path = path->get<std::string>();
  if (*type != "file" || !is_gguf_name(file.path)) return;
  if (leads_out(file.path)) {
    refuse(name, fmt::format("names {}, which could lie outside of the folder for it",
                             troika::quoted(file.path)));
  }
  if (listing->files.size() + listing->left_out.size() == kMostFiles) refuse(name, "has no end");
  if (!is_safe_path(file.path)) {
    listing->left_out.push_back(std::move(file.path));
    return;
  }
  file.bytes = size_of(entry, name, file.path);
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = sha256_of(*lfs, name, file.path);
    if (lfs->contains("size") && size_of(*lfs, name, file.path) != file.bytes) {
      refuse(name, fmt::format("gives two sizes of {}", troika::quoted(file.path)));
    }
  } else if (file.bytes <= kMostGitBytes) {
    // Hubs that keep no files with git may have names of another kind, which say nothing here. Of
    // larger files git keeps a pointer, whose hash would be that of other bytes.
    file.git_sha1 = hash_in(entry, 40);
  }
  listing->files.push_back(std::move(file));
}

}  // namespace

bool is_gguf_name(std::string_view path) {
  constexpr std::string_view kEnd = ".gguf";
  return path.size() >= kEnd.size() &&
         std::equal(kEnd.begin(), kEnd.end(), path.end() - static_cast<ptrdiff_t>(kEnd.size()),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
}

void add_page(std::string_view text, std::string_view name, Listing* listing) {
  check_extent(text, name);
  const json page = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!page.is_array()) refuse(name, "is not the JSON that its interface promises");
  for (const json& entry : page) {
    if (!entry.is_object()) refuse(name, "has an entry that is no object");
    add_entry(entry, name, listing);
  }
}

}  // namespace troika::fetch
