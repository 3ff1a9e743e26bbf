// Probes are conversations of known words: what a chat template makes of them shows how it writes
// calls.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/chat.h"
#include "server/calls/shape.h"

namespace troika::server::probes {

using Json = nlohmann::ordered_json;

// These names stand nowhere in a template by themselves.
inline constexpr const char* kNames[] = {"probe_alpha", "probe_omega"};
inline constexpr const char* kId = "probeid01";
inline constexpr const char* kKey = "probe_key";
inline constexpr const char* kValue = "probe_value";
// This value is a number, around which a template may write other marks than around a text.
inline constexpr const char* kSecondKey = "probe_num";
inline constexpr const char* kSecondValue = "73921";

Json arguments();      // returns arguments with one text
Json two_arguments();  // returns arguments with a text and a number
Json messages(int n_calls, const Json& arguments = probes::arguments());

// Returns what the template writes behind the generation prompt for the answer that ends `whole`,
// or nothing if the template refuses. `has_descriptions` says that the tools and their properties
// have some.
std::optional<std::string> answer_with(const engine::ChatFormat& chat, const Json& whole,
                                       bool has_descriptions = true);

// Returns where two texts part, but not within a mark such as <think>: both may begin with "<t".
size_t common_bytes(const std::string& a, const std::string& b);
// Says whether the template takes a system message, and writes it.
bool takes_system(const engine::ChatFormat& chat);
// Returns what the template writes behind an answer in words.
std::string end_of_words(const engine::ChatFormat& chat);
// Returns what stands before a call without the thoughts that a template writes there.
std::string without_thoughts(const std::string& before, const ThoughtMarks& marks);
// Returns the text before what ends an answer.
std::string without_end(std::string text, const std::string& usual_end);
// These functions find shapes whose arguments are no JSON: pairs of keys and values, or JSON with
// other marks around texts. They return nothing if the template writes something else.
std::optional<CallShape> find_shape_of_pairs(const engine::ChatFormat& chat);
std::optional<CallShape> find_shape_of_marks(const engine::ChatFormat& chat);

inline size_t length(const char* text) { return std::string_view(text).size(); }

}  // namespace troika::server::probes
