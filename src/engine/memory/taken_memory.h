// Enters the memory that an engine took, in place of what was expected.
#pragma once

#include "plan/ledger.h"

namespace troika::engine {

class Engine;

// Replaces expected entries of the ledger by what was taken. REQUIRES: the engine has its
// executables.
void enter_taken(const Engine& engine, plan::Ledger* ledger);

}  // namespace troika::engine
