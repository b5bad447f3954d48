#include "common/train/report/run_files.hpp"

#include "common/trace/trace_recorder.hpp"

namespace ultra::train {

RunFiles::RunFiles(const TrainOptions& options, int rank)
    : metrics_(rank == 0 ? options.metrics : std::string()) {
  if (rank == 0 && !options.trace.empty()) trace_.emplace(options.trace, "trace file (--trace)");
}

void RunFiles::finish(const TrainOptions& options, const ExtraConfig& extra,
                      const TrainResult& result, std::span<const std::string> timelines) {
  metrics_.finish(options, extra, result);
  if (!trace_) return;
  trace_->write(trace::join_timelines(timelines));
  trace_->commit();
}

}  // namespace ultra::train
