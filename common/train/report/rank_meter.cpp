#include "common/train/report/rank_meter.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/json.hpp"
#include "common/train/run/text_messages.hpp"

namespace ultra::train {

namespace {

using Clock = std::chrono::steady_clock;

CommStats difference(CommStats now, const CommStats& before) {
  for (std::size_t kind = 0; kind < now.kinds.size(); ++kind) {
    now.kinds[kind].operations -= before.kinds[kind].operations;
    now.kinds[kind].sent_bytes -= before.kinds[kind].sent_bytes;
  }
  now.busy_seconds -= before.busy_seconds;
  now.exposed_seconds -= before.exposed_seconds;
  return now;
}

}  // namespace

RankMeter::RankMeter(Communicator world, Device device)
    : world_(std::move(world)), device_(std::move(device)) {
  run_began();
}

void RankMeter::run_began() {
  before_ = world_.stats();
  step_began();
}

void RankMeter::step_began() {
  lap_begin_ = Clock::now();
  waited_before_lap_ = waited();
}

void RankMeter::pause() { before_pause_ = world_.stats(); }

void RankMeter::resume() {
  const CommStats paused = difference(world_.stats(), before_pause_);
  for (std::size_t kind = 0; kind < before_.kinds.size(); ++kind) {
    before_.kinds[kind].operations += paused.kinds[kind].operations;
    before_.kinds[kind].sent_bytes += paused.kinds[kind].sent_bytes;
  }
  before_.busy_seconds += paused.busy_seconds;
  before_.exposed_seconds += paused.exposed_seconds;
  step_began();
}

double RankMeter::waited() const {
  return world_.stats().exposed_seconds + offload_.exposed_seconds();
}

double RankMeter::lap() {
  const auto now = Clock::now();
  const double waited_until_now = waited();
  const double seconds = std::chrono::duration<double>(now - lap_begin_).count();
  const double computed = std::max(0.0, seconds - (waited_until_now - waited_before_lap_));
  no_compute_ += seconds - computed;
  lap_begin_ = now;
  waited_before_lap_ = waited_until_now;
  return computed;
}

void RankMeter::gradients_done() { seconds_.forward_backward += lap(); }

void RankMeter::step_ended() { seconds_.optimizer += lap(); }

void RankMeter::run_ended() { no_compute_ += lap(); }

RankSummary RankMeter::summary() const {
  RankSummary summary{.rank = world_.rank(),
                      .device = has_streams(device_.kind()) ? device_.name() : "",
                      .memory = device_.memory(),
                      .reserved_bytes = device_.reserved_bytes(),
                      .system_allocations = device_.system_allocations(),
                      .seconds = seconds_,
                      .communication = difference(world_.stats(), before_),
                      .offload = offload_,
                      .counters = counters_};
  summary.seconds.compute = seconds_.forward_backward + seconds_.optimizer;
  summary.seconds.total = summary.seconds.compute + no_compute_;
  return summary;
}

std::vector<RankSummary> exchange_summaries(const Communicator& world, const RankSummary& own) {
  Json all = Json::array();
  for (const std::string& text : gather_texts(world, to_json(own).dump())) {
    all.push_back(Json::parse(text));
  }
  std::vector<RankSummary> summaries;
  for (const Json& one : Json::parse(broadcast_text(world, all.dump())).elements()) {
    summaries.push_back(rank_summary_from(one));
  }
  return summaries;
}

}  // namespace ultra::train
