// Lanes that take modelled time. The machine owns the one queue of events, because its lanes share
// a memory bus: what one lane reads slows the others down, so the end of a running task moves
// whenever another begins or ends.
#pragma once

#include <memory>
#include <vector>

#include "lanes/machine.h"

namespace troika::lanes {

inline constexpr double kUsPerS = 1e6;
inline constexpr double kBytesPerUsOfGbPerS = 1e3;

// What a task costs on its lane.
struct TaskCost {
  double fixed_us = 0.0;    // submission, start: neither compute nor memory
  double compute_us = 0.0;  // if memory were free
  double bytes = 0.0;       // read and written over the bus
};

// How lanes share the bus.
struct Bus {
  double total_gb_s = 0.0;        // 0: no limit
  std::vector<double> lane_gb_s;  // of each lane alone; 0: no limit
};

// What a task costs more by where it comes from. A task is handed over when it begins at the moment
// at which, last of all, a task of another lane ended: in order, that is the one it waited for.
// Each software on a phone has its own.
struct Transitions {
  std::vector<std::vector<double>> handover_us;  // [from][to]; empty: none
  std::vector<double> restart_us;                // of a lane that had run empty; empty: none
};

// What draws the screen meanwhile: so much of a lane's time for each frame (H14). A frame begins
// with a period, and is to end with it; where it has not, none begins until it has.
struct Rendering {
  int lane = -1;  // none draws
  double frame_us = 0.0;
  double period_us = 0.0;
};
struct Frames {
  int64_t n_periods = 0;
  int64_t n_drawn = 0;
  int64_t n_in_time = 0;  // of those drawn
};

class VirtualMachine : public Machine {
 public:
  explicit VirtualMachine(Bus bus);

  // The machine takes no ownership of a lane; lanes register in the order of the bus's entries.
  void add_lane(Lane* lane) { lanes_.push_back(lane); }
  // Sets how many tasks the queue of a lane takes; 1 where nothing is set.
  void set_queue_depth(int lane, int depth);
  // A lane rests behind each task, so that it is busy for no more than this share of the time
  // (H14). Until then no other task goes into its queue.
  void set_busy_share(int lane, double share);
  // Frames are drawn from now on, behind what is in the lane's queue.
  void set_rendering(const Rendering& rendering);
  const Frames& frames() const { return frames_; }
  // By the number of the software that `start` names.
  void set_transitions(std::vector<Transitions> transitions) {
    transitions_ = std::move(transitions);
  }
  std::span<Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const Latch& latch) override;

  // Called by a virtual lane when a task is submitted; `completion` is told when its time has
  // passed. Where the lane has others already it waits for them, and its fixed part passes
  // meanwhile, behind those of the others: a queue hides it.
  // REQUIRES: the lane has fewer tasks than the depth of its queue.
  void start(int lane, const TaskCost& cost, Status status, Completion& completion,
             int software = 0);

  // Work of a lane that gives way to its tasks: it passes while the lane has none.
  void add_background(int lane, double us) { background_us_[static_cast<size_t>(lane)] += us; }
  // Waits until that is done.
  void finish_background(int lane);

  // Time during which each lane had a task.
  double busy_us(int lane) const { return busy_us_[static_cast<size_t>(lane)]; }
  // When the task of the lane began that ended last.
  double started_us(int lane) const { return lanes_started_us_[static_cast<size_t>(lane)]; }
  // Returns the time during which this lane alone had a task.
  double alone_us(int lane) const { return alone_us_[static_cast<size_t>(lane)]; }
  // What its tasks were to read and write over the bus.
  double bytes(int lane) const { return bytes_[static_cast<size_t>(lane)]; }

 private:
  class VirtualClock : public Clock {
   public:
    double now_us() const override { return now; }
    double now = 0.0;
  };
  struct Running {
    int lane;
    TaskCost cost;
    Status status;
    Completion* completion;  // null: a frame
    double fixed_left_us;
    double share_left;       // of the part behind the fixed one, 1 to 0
    double begin_us = -1.0;  // when it became the first of its lane
    // Found again whenever time passes.
    bool is_first = false;     // of its lane
    bool is_starting = false;  // its fixed part passes now: of its lane the first that has any left
    bool is_running() const { return is_first && fixed_left_us <= 0.0; }
  };
  // Lets time pass up to the next moment at which something changes, and no longer than so much.
  void pass_time(double most_us);
  void begin_frame();
  void end_rests();
  double next_change_us() const;
  void end(const Running& task);
  bool has_task(int lane) const;
  void find_what_passes();
  // Time for the whole part behind the fixed one, with those lanes reading at once.
  double duration_us(const Running& task, const std::vector<double>& gb_s) const;
  std::vector<double> share_bus() const;
  void advance(double us, const std::vector<double>& gb_s);

  double transition_us(size_t lane, bool has_tasks, int software) const;

  Bus bus_;
  std::vector<Transitions> transitions_;
  int last_lane_ = -1;                // whose task ended last
  double last_end_us_ = -1.0;         // when that was
  std::vector<double> lane_ends_us_;  // of the last task of each lane
  std::vector<Lane*> lanes_;
  std::vector<int> depths_;
  VirtualClock clock_;
  std::vector<Running> running_;  // in the order of their submission
  // Lanes that rest: the shares that they may be busy, until when they rest, what waits for that.
  std::vector<double> busy_shares_;
  std::vector<double> rests_until_us_;
  std::vector<Running> resting_;
  std::vector<double> lanes_started_us_;
  Rendering rendering_;
  Frames frames_;
  double next_frame_us_ = 0.0;
  double frame_end_us_ = 0.0;  // of the one that is drawn: in time up to then
  bool is_drawing_ = false;
  std::vector<double> busy_us_, alone_us_, bytes_;
  std::vector<double> background_us_;  // that is left, of each lane
};

}  // namespace troika::lanes
