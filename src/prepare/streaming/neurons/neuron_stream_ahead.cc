// Reads neurons of the next layer while the disk has nothing else to do (P2, P6: 4.1.1, 4.4). Which
// ones are worth it is told by the present layer: where its last tokens needed most of its neurons,
// as in prompts, all of the next one's; else as many of the hottest as they needed.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "prepare/streaming/neurons/neuron_stream.h"

namespace troika::prepare {

using weights::kSegmentNeurons;

void NeuronStream::set_tracing(bool is_traced) {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_traced_ = is_traced;
}

std::vector<NeuronStream::LayerReads> NeuronStream::take_reads() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(traced_, {});
}

// The disk is one row of a trace, so reads that were under way together come one after the other.
void NeuronStream::note_reads(const LayerReads& reads) {
  if (!is_traced_ || reads.end_us <= traced_until_us_) return;
  traced_.push_back(reads);
  traced_.back().start_us = std::max(reads.start_us, traced_until_us_);
  traced_until_us_ = reads.end_us;
}

// Returns how many places of each segment of the next layer are worth reading ahead.
uint64_t NeuronStream::n_places_ahead() const {
  const weights::NeuronForm& form = forms_[static_cast<size_t>(ffn_)];
  // Hot neurons stand first in their segments, as many in each, more or less.
  const uint64_t n_hot = options_.hot != nullptr
                             ? static_cast<uint64_t>(options_.hot->n_neurons()) / forms_.size()
                             : 0;
  if (2 * n_live_ >= form.n_neurons() - n_hot) return kSegmentNeurons;
  if (!knows_heat_ || !options_.reads_hottest_ahead) return 0;
  const auto n_segments =
      static_cast<uint64_t>(weights::n_segments(static_cast<int>(form.n_neurons())));
  return (n_live_ + n_hot + n_segments - 1) / n_segments;
}

void NeuronStream::read_ahead() {
  if (ahead_ == nullptr || is_stopped_ || ahead_->is_reading() || n_reading_ > 0) return;
  // What is asked for comes first.
  if ((n_wanted_ > 0 && !is_told()) || n_begun_ < n_wanted_) return;
  if (n_untold_ > 0 || n_wanting_rest_ > 0) return;
  const int next = (ffn_ + 1) % static_cast<int>(forms_.size());
  AheadBatch* const batch =
      ahead_->begin(next, n_places_ahead(), gap_bytes_, [this, next](uint64_t place) {
        const auto layer = static_cast<size_t>(next);
        const weights::NeuronId id = {next, static_cast<int>(place)};
        return file_->tables().order(layer)[place] < forms_[layer].n_neurons() && !is_hot(id) &&
               !cache_->is_resident(cached(id));
      });
  if (batch == nullptr) return;
  batch->start_us = RealClock().now_us();
  counters_.n_reads += static_cast<int64_t>(batch->reads.size());
  counters_.read_bytes += batch->bytes;
  lanes::Run run;
  run.reads = batch->reads;
  disk_->submit(*read_, run, *batch);
}

void NeuronStream::end_ahead(AheadBatch* batch, lanes::Status status) {
  std::string problem;
  if (status != lanes::Status::kDone) problem = disk_->problem();
  const std::lock_guard<std::mutex> lock(mutex_);
  ahead_->end(batch, status == lanes::Status::kDone);
  if (status != lanes::Status::kDone) note(std::move(problem));
  note_reads({Neurons::ffns()[static_cast<size_t>(batch->ffn)].ffn.layer, batch->start_us,
              RealClock().now_us(), true});
  for (Part& part : parts_) {
    const bool waits = part.state == State::kReading && part.ahead == batch;
    if (waits) arrived(&part);
  }
  read_ahead();
  changed_.notify_all();
}

}  // namespace troika::prepare
