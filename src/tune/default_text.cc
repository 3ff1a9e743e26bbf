#include "tune/default_text.h"

namespace troika::tune {
namespace {

constexpr std::string_view kTheRiverBank =
#include "texts/the_river_bank.inl"
    ;

}  // namespace

std::string_view default_text() { return kTheRiverBank; }

}  // namespace troika::tune
