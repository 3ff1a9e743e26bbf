#include "cli/flags/idle_note.h"

#include <fmt/format.h>

#include "cli/output.h"

namespace troika::cli {

void note_idle_option(const Command& command, const std::string& name, bool is_idle,
                      const std::string& why) {
  if (!is_idle || !command.is_given(name)) return;
  note(fmt::format("note: {} does nothing here: {}\n", name, why));
}

}  // namespace troika::cli
