#pragma once
/// @file
/// CommTrace: a rank's communication on its timeline.

#include <vector>

#include "common/comm/communicator.hpp"
#include "common/trace/trace_recorder.hpp"

namespace ultra::train {

/// @brief Records every operation of a rank, and every wait of its thread, while it lives.
///
/// Operations stand in the track "communication", those that run beside others in further ones
/// ("communication 2"), because spans of one track must not overlap. Each is named by its kind, its
/// communicator and its label, and shows its elements and bytes sent. The track "waiting" shows when
/// the rank's own thread waited, and for which operation.
class CommTrace : public CommObserver {
 public:
  /// @brief Starts to record.
  /// @param recorder  outlives this; nullptr records nothing.
  CommTrace(Communicator world, trace::TraceRecorder* recorder);
  CommTrace(const CommTrace&) = delete;
  CommTrace& operator=(const CommTrace&) = delete;
  ~CommTrace() override { stop(); }

  /// @brief Records nothing from now on.
  void stop();

  void operation_ended(const OperationInfo& info, std::size_t sent_bytes, Clock::time_point begin,
                       Clock::time_point end) override;
  void waited(const OperationInfo& info, Clock::time_point begin, Clock::time_point end) override;

 private:
  Communicator world_;
  trace::TraceRecorder* recorder_;
  std::vector<Clock::time_point> track_ends_;  // of each communication track
};

}  // namespace ultra::train
