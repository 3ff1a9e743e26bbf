// What is said about a prompt's attention, on a command line and in a plan's file.
#pragma once

namespace troika::plan {

// Throws UsageError for a number of prebuilt pairs of scales that there is not.
void check_bucket_count(int n);

}  // namespace troika::plan
