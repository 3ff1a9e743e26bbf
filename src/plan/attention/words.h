// What is said about a prompt's attention, on a command line and in a plan's file.
#pragma once

#include <string>
#include <string_view>

namespace troika::plan {

// Throws UsageError for a number of prebuilt pairs of scales that there is not.
void check_bucket_count(int n);

// Returns a sentence about a plan with the fields of its file in place of options: beside a plan
// those options do nothing.
std::string in_words_of_plan(std::string_view sentence);

}  // namespace troika::plan
