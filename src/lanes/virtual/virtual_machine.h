// Lanes that take modelled time. The machine owns their one queue of events, because they share a
// memory bus: what one lane reads slows the others down, so the end of a running task moves
// whenever another task begins or ends.
#pragma once

#include <memory>
#include <vector>

#include "lanes/machine.h"

namespace troika::lanes {

// What a task costs on its lane.
struct TaskCost {
  double fixed_us = 0.0;     // submission and start, which are neither compute nor memory
  double compute_us = 0.0;   // the time it would take if memory were free
  double bytes = 0.0;        // what is read and written over the bus
  double power_share = 1.0;  // the share of its lane's power that the task takes
};

// How lanes share the bus.
struct Bus {
  double total_gb_s = 0.0;        // 0: no limit
  std::vector<double> lane_gb_s;  // what each lane alone can take; 0: no limit
};

// The additional cost of a task that follows a task of another lane. A task is handed over when it
// begins at the very moment at which a task of another lane was the last to end: as tasks run in
// order, it waited for that one. Each software on a phone has transitions of its own.
struct Transitions {
  std::vector<std::vector<double>> handover_us;  // [from][to]; empty: none
  std::vector<double> restart_us;                // for a lane that had run empty; empty: none
  // How long a core polls before such a task, unless the lane waits less; 0: none polls.
  double poll_us = 0.0;
};

// Work that draws the screen meanwhile: each frame takes so much of a lane's time (H14). A frame
// begins with a period and should end within it. While a late frame is drawn, no other begins.
struct Rendering {
  int lane = -1;  // -1: nothing is drawn
  double frame_us = 0.0;
  double period_us = 0.0;
};
// Counts frames when the period ends in which they ended, so that of any stretch of time no more
// are drawn than it has periods.
struct Frames {
  int64_t n_periods = 0;  // counts periods that have ended
  int64_t n_drawn = 0;
  int64_t n_in_time = 0;  // counts the drawn frames that ended within their period
};

class VirtualMachine : public Machine {
 public:
  explicit VirtualMachine(Bus bus);

  // The machine takes no ownership of a lane; lanes register in the order of the bus's entries.
  void add_lane(Lane* lane) { lanes_.push_back(lane); }
  // Sets how many tasks the queue of a lane takes; 1 where nothing is set.
  void set_queue_depth(int lane, int depth);
  // Makes a lane rest behind each task, so that it is busy for no more than this share of the time
  // (H14). While it rests, no task goes into its queue.
  void set_busy_share(int lane, double share);
  // Draws frames from now on, behind the tasks in the lane's queue.
  void set_rendering(const Rendering& rendering);
  const Frames& frames() const { return frames_; }
  // Sets transitions by the number of the software that `start` names.
  void set_transitions(std::vector<Transitions> transitions) {
    transitions_ = std::move(transitions);
  }
  std::span<Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const Latch& latch) override;

  // Starts a task. A virtual lane calls it when a task is submitted; `completion` is told when the
  // task's time has passed. Where the lane has other tasks already, this one waits for them. Its
  // fixed part passes meanwhile, behind those of the others, so that a queue hides it. REQUIRES:
  // the lane has fewer tasks than the depth of its queue.
  void start(int lane, const TaskCost& cost, Status status, Completion& completion,
             int software = 0);

  // Adds work of a lane that gives way to tasks: it passes while the lane has none. Lane -1 stands
  // for a processor that is no lane, and so has no task.
  void add_background(int lane, double us) { background_of(lane) += us; }
  // Waits until the lane's background work is done.
  void finish_background(int lane);
  // Returns the time for which a processor that is no lane worked in the background.
  double outside_us() const { return outside_us_; }
  // Returns the time for which a core polled for lanes that waited.
  double polled_us() const { return polled_us_; }

  // Returns the time during which a lane had a task.
  double busy_us(int lane) const { return busy_us_[static_cast<size_t>(lane)]; }
  // Lets a part of another lane's processor ask for what `lane` does: while `lane` has a task, it
  // takes this share of the other's power, as far as the other's own task leaves it.
  void set_asking(int lane, int other, double share) { asking_ = {lane, other, share}; }
  // Returns the time during which a lane took power, counted by the share of it.
  double powered_us(int lane) const { return powered_us_[static_cast<size_t>(lane)]; }
  // Returns when that task of the lane began that ended last.
  double started_us(int lane) const { return lanes_started_us_[static_cast<size_t>(lane)]; }
  // Returns the time during which this lane alone had a task.
  double alone_us(int lane) const { return alone_us_[static_cast<size_t>(lane)]; }
  // Returns the bytes that the lane's tasks read and wrote over the bus.
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
    Completion* completion;  // null: the task is a frame
    double fixed_left_us;
    double share_left;       // what is left of the part behind the fixed one, from 1 to 0
    double begin_us = -1.0;  // when it became the first task of its lane
    // The two members below are found anew whenever time passes.
    bool is_first = false;  // the task is the first one of its lane
    // The fixed part of the task passes now: it is the lane's first task that has any left.
    bool is_starting = false;
    bool is_running() const { return is_first && fixed_left_us <= 0.0; }
  };
  // Lets time pass up to the next moment at which something changes, but no longer than most_us.
  void pass_time(double most_us);
  void begin_frame();
  void end_period();
  void end_rests();
  double next_change_us() const;
  void end(const Running& task);
  bool has_task(int lane) const;
  void find_what_passes();
  void count_power(double us);
  // Returns the time of the whole part behind the fixed one, if lanes get these GB/s.
  double duration_us(const Running& task, const std::vector<double>& gb_s) const;
  std::vector<double> share_bus() const;
  void advance(double us, const std::vector<double>& gb_s);

  bool takes_over(size_t lane, const Transitions& transitions) const;
  double transition_us(size_t lane, bool has_tasks, const Transitions& transitions) const;
  double& background_of(int lane) {
    return lane < 0 ? background_us_.back() : background_us_[static_cast<size_t>(lane)];
  }

  Bus bus_;
  std::vector<Transitions> transitions_;
  int last_lane_ = -1;                // the lane whose task ended last
  double last_end_us_ = -1.0;         // the time at which that task ended
  std::vector<double> lane_ends_us_;  // when the last task of each lane ended
  std::vector<Lane*> lanes_;
  std::vector<int> depths_;
  VirtualClock clock_;
  std::vector<Running> running_;  // in the order of submission
  // Lanes that rest: the share of time that each may be busy, until when each rests, and the tasks
  // that wait for that.
  std::vector<double> busy_shares_;
  std::vector<double> rests_until_us_;
  std::vector<Running> resting_;
  std::vector<double> lanes_started_us_;
  Rendering rendering_;
  Frames frames_;
  double next_frame_us_ = 0.0;
  double frame_end_us_ = 0.0;  // the frame that is drawn is in time until then
  bool is_drawing_ = false;
  // Says what ended in the period that goes on. Before the first period nothing does.
  Frames ended_;
  bool is_in_period_ = false;
  struct Asking {
    int lane = -1, other = -1;
    double share = 0.0;
  };
  Asking asking_;
  std::vector<double> busy_us_, alone_us_, bytes_, powered_us_;
  // The background work that each lane has left, and behind them what has no lane.
  std::vector<double> background_us_;
  double outside_us_ = 0.0, polled_us_ = 0.0;
};

}  // namespace troika::lanes
