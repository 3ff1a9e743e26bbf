// Runs a program as a child process: as a shell would, with arguments, input, environment and
// limits, or in a pseudo-terminal, as a person would.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troika::test_support {

struct Command {
  std::vector<std::string> words;                  // begins with the program's path
  std::string in;                                  // goes to standard input
  std::map<std::string, std::string> environment;  // is added to the environment of this process
  std::string out_path;                            // receives standard output in place of a pipe
  std::string err_path;                            // receives standard error in place of a pipe
  uint64_t most_file_bytes = 0;  // limits each file that the program writes; 0: no limit
  int most_seconds = 240;        // the program is killed when they are over
  // Is called with what standard output has brought so far. Returning false closes the pipe.
  std::function<bool(const std::string& out)> watch;
};

struct Finished {
  int status = -1;         // is -1 where a signal ended the program
  int signal = 0;          // is 0 where the program exited
  bool timed_out = false;  // says that the program was killed at its limit of time
  std::string out, err;
};

Finished run_program(const Command& command);

// A program in a terminal of 80 columns. read_until returns what it writes.
class TerminalProgram {
 public:
  TerminalProgram(const std::vector<std::string>& words,
                  const std::map<std::string, std::string>& environment);
  ~TerminalProgram();  // kills the program if it still runs
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  void type(const std::string& keys);
  void send(int signal);
  // Sets the terminal up for whole lines that it shows itself, as a shell does at its prompt.
  void set_mode_of_shells();
  // Says whether the terminal shows what is typed, as it does while no program reads single keys.
  bool echoes() const;
  // Reads until `text` has appeared behind what earlier calls returned, and returns everything up
  // to the end of `text`. Returns "" if the time is over or the program ends before.
  std::string read_until(const std::string& text, int most_seconds = 120);
  // Returns what the program wrote and no call has returned yet, for messages of failed tests.
  const std::string& pending() const { return pending_; }
  // Waits for the end and returns the exit status, 128 and the number of the signal that ended it,
  // or -1 where the time is over.
  int wait(int most_seconds = 120);
  // Reads until the prompt "> " and waits until the program reads single keys. (What is typed
  // earlier, the terminal takes for a line.) Returns false if the time is over before.
  bool at_prompt(int most_seconds = 120);
  // Types the keys once a second until `text` has appeared. Returns false if it does not appear.
  bool type_until(const std::string& keys, const std::string& text, int most_seconds = 120);
  // Types the keys once a second until the program has ended: a terminal that is just changing its
  // mode may lose a key. Returns what wait() returns.
  int leave_with(const std::string& keys, int most_seconds = 120);

 private:
  bool read_more(int64_t deadline_ms);

  pid_t child_ = -1;
  int terminal_ = -1;
  std::string pending_;
};

}  // namespace troika::test_support
