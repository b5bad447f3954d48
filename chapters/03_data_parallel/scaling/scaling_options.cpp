#include "chapters/03_data_parallel/scaling/scaling_options.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"
#include "chapters/03_data_parallel/scaling/scaling_report.hpp"
#include "common/base/errors.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::data_parallel {
namespace {

constexpr std::size_t kDefaultGlobalBatch = 256;
}  // namespace

void ScalingOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, "Scaling");
  flags.add("--scale", scale,
            "predict the step on this many replicas of a machine that is not here instead of "
            "training: 1,2,4,8,16");
  flags.add("--scale-machine", machine, "one node of it, as for --simulate: h100,nics=1");
  flags.add("--scale-algorithm", algorithm, "of all_reduce, as for --simulate-algorithms");
  flags.add("--scale-preset", preset,
            "a known model, as for --estimate, or 'custom' for the model that the flags describe");
  flags.add("--scale-seq", seq_len, "tokens per sequence");
  flags.add("--scale-global-batch", global_batch,
            "sequences per step, however many replicas there are (256)");
  flags.add("--scale-rank-batch", rank_batch, "sequences per replica and step instead");
  flags.add("--scale-micro-batch", micro_batch,
            "sequences per forward and backward pass; 0: all of a replica's at once");
  flags.add("--scale-bytes", element_bytes, "bytes of a gradient's element on the link");
  flags.add("--scale-peak-tflops", peak_tflops, "1e12 FLOP per second of a GPU");
  flags.add("--scale-mfu", mfu, "the part of it that a replica alone reaches");
  flags.add("--scale-bucket-mb", bucket_mb,
            "capacity of a bucket in MB (1e6 bytes); 0: each gradient by itself");
  flags.add_switch("--scale-json", json, "print the prediction as JSON");
}

void ScalingOptions::validate() const {
  if (global_batch && rank_batch) {
    throw ConfigError(fmt::format(
        "--scale-global-batch {} and --scale-rank-batch {} exclude each other: give one of them.",
        *global_batch, *rank_batch));
  }
  if (predicts()) return;
  const ScalingOptions defaults;
  const auto given = std::to_array<std::pair<bool, const char*>>({
      {machine != defaults.machine, "--scale-machine"},
      {algorithm != defaults.algorithm, "--scale-algorithm"},
      {preset != defaults.preset, "--scale-preset"},
      {seq_len != defaults.seq_len, "--scale-seq"},
      {global_batch.has_value(), "--scale-global-batch"},
      {rank_batch.has_value(), "--scale-rank-batch"},
      {micro_batch != defaults.micro_batch, "--scale-micro-batch"},
      {element_bytes != defaults.element_bytes, "--scale-bytes"},
      {peak_tflops != defaults.peak_tflops, "--scale-peak-tflops"},
      {mfu != defaults.mfu, "--scale-mfu"},
      {bucket_mb != defaults.bucket_mb, "--scale-bucket-mb"},
      {json, "--scale-json"},
  });
  for (const auto& [is_given, flag] : given) {
    if (is_given) {
      throw ConfigError(
          fmt::format("{} needs --scale REPLICAS, for example --scale 1,2,4,8.", flag));
    }
  }
}

ScalingRequest ScalingOptions::request(const nn::ModelConfig& custom) const {
  under_flag("--scale-algorithm", "", [&] {
    static_cast<void>(collectives::find_algorithm(OpKind::kAllReduce, algorithm));
  });
  ScalingRequest request{
      .model = sizes_of(under_flag("--scale-preset", "--estimate",
                                   [&] { return memory::shape_for_estimate(preset, custom); })),
      .machine = node_of("--scale-machine", "--scale", machine),
      .algorithm = algorithm,
      .dp = numbers_of<int>("--scale", scale, "1,2,4,8"),
      .seq_len = seq_len,
      .batch_rule = rank_batch ? BatchRule::kPerRank : BatchRule::kGlobal,
      .batch = rank_batch.value_or(global_batch.value_or(kDefaultGlobalBatch)),
      .micro_batch = micro_batch,
      .element_bytes = element_bytes,
      .peak_flops = peak_tflops * 1e12,
      .mfu = mfu,
      .bucket_bytes = bucket_mb * 1e6};
  request.validate();
  return request;
}

std::string ScalingOptions::answer(const nn::ModelConfig& custom) const {
  const ScalingReport report = predict_scaling(request(custom));
  return json ? scaling_to_json(report).dump(2) + "\n" : format_scaling(report);
}

}  // namespace ultra::data_parallel
