// Shows the cores and devices of this machine that lanes may name.
#pragma once

namespace troika::cli {

// Prints a table, or JSON: each device, and why a runtime of devices is missing.
void show_devices(bool is_json);

}  // namespace troika::cli
