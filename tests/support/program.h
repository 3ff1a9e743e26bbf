// Runs a program as a child process, as a shell would: with arguments, input, environment and
// limits; and in a pseudo-terminal, as a person would.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troika::test_support {

struct Command {
  std::vector<std::string> words;                  // the program's path first
  std::string in;                                  // its standard input
  std::map<std::string, std::string> environment;  // beside what this process has
  std::string out_path;                            // standard output goes there instead of a pipe
  std::string err_path;                            // the same for standard error
  uint64_t most_file_bytes = 0;                    // limit of what it may write to a file; 0: none
  int most_seconds = 240;                          // then it is killed
  // Called with what standard output has brought so far; returning false closes the pipe.
  std::function<bool(const std::string& out)> watch;
};

struct Finished {
  int status = -1;         // -1 where a signal ended it
  int signal = 0;          // 0 where it exited
  bool timed_out = false;  // killed at the limit
  std::string out, err;
};

Finished run_program(const Command& command);

// A program in a terminal of 80 columns. What it writes comes through read_until.
class TerminalProgram {
 public:
  TerminalProgram(const std::vector<std::string>& words,
                  const std::map<std::string, std::string>& environment);
  ~TerminalProgram();  // kills it where it still runs
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  void type(const std::string& keys);
  // Reads until `text` has appeared after what earlier calls returned, and returns everything up to
  // its end. Empty if it does not come within the time or the program ends before.
  std::string read_until(const std::string& text, int most_seconds = 120);
  // What was written but not yet returned; for messages of failed tests.
  const std::string& pending() const { return pending_; }
  // Waits for the end; the exit status, or -1 for a signal or where it does not end.
  int wait(int most_seconds = 120);
  // Reads until the prompt "> " and waits until the program reads key by key: what is typed before
  // that, the terminal treats as a line of its own. False if that does not come.
  bool at_prompt(int most_seconds = 120);
  // Types the keys once a second until `text` has appeared; false if it does not.
  bool type_until(const std::string& keys, const std::string& text, int most_seconds = 120);
  // Types the keys once a second until the program has ended, as a person would: a terminal that
  // is just changing between its modes may lose a key.
  int leave_with(const std::string& keys, int most_seconds = 120);

 private:
  bool read_more(int64_t deadline_ms);

  pid_t child_ = -1;
  int terminal_ = -1;
  std::string pending_;
};

}  // namespace troika::test_support
