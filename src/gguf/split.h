// A model that is split over several files, NAME-00001-of-0000N.gguf: what their names and headers
// say about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gguf/header.h"

namespace troika::gguf {

// What a file's name says: which of how many parts it is. Both count from 1.
struct PartName {
  std::string stem;  // the path before "-00001-of-00003.gguf"
  uint32_t number = 1;
  uint32_t count = 1;

  std::string path_of(uint32_t number) const;
};
// Empty where the path is no name of a part.
std::optional<PartName> parse_part_name(std::string_view path);

// What a file's header says. A whole model has one part.
struct SplitFacts {
  uint32_t number = 1;  // counted from 1, as in the names
  uint32_t count = 1;
  std::optional<uint64_t> n_tensors;  // of all parts together
};
// Throws Error for values that cannot be.
SplitFacts split_facts(const Header& header, std::string_view name);

// Throws Error, with what to do, where this header is not that of the part with this number of the
// model that `first` begins.
void check_part(const Header& part, std::string_view part_name, uint32_t number,
                const Header& first, std::string_view first_name);

}  // namespace troika::gguf
