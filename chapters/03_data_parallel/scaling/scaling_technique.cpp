#include <fmt/format.h>

#include "chapters/03_data_parallel/scaling/scaling_technique.hpp"

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"
#include "chapters/03_data_parallel/scaling/scaling_report.hpp"
#include "common/base/errors.hpp"

namespace ultra::data_parallel {
namespace {

constexpr std::size_t kDefaultGlobalBatch = 256;

/// Calls visit with each flag, see add_flags().
constexpr auto kEachFlag = [](const auto& visit) {
  using Options = ScalingOptions;
  visit("--scale", &Options::scale,
        "predict the step on this many replicas of a machine that is not here instead of "
        "training: 1,2,4,8,16");
  visit("--scale-machine", &Options::machine, "one node of it, as for --simulate: h100,nics=1");
  visit("--scale-algorithm", &Options::algorithm, "of all_reduce, as for --simulate-algorithms");
  visit("--scale-preset", &Options::preset,
        "a known model, as for --estimate, or 'custom' for the model that the flags describe");
  visit("--scale-seq", &Options::seq_len, "tokens per sequence");
  visit("--scale-global-batch", &Options::global_batch,
        "sequences per step, however many replicas there are (256)");
  visit("--scale-rank-batch", &Options::rank_batch, "sequences per replica and step instead");
  visit("--scale-micro-batch", &Options::micro_batch,
        "sequences per forward and backward pass; 0: all of a replica's at once");
  visit("--scale-bytes", &Options::element_bytes, "bytes of a gradient's element on the link");
  visit("--scale-peak-tflops", &Options::peak_tflops, "1e12 FLOP per second of a GPU",
        train::Numbers{1e-3, 1e9});
  visit("--scale-mfu", &Options::mfu, "the part of it that a replica alone reaches",
        train::Numbers{1e-3, 1.0});
  visit("--scale-bucket-mb", &Options::bucket_mb,
        "capacity of a bucket in MB (1e6 bytes); 0: each gradient by itself",
        train::Numbers{0.0, 1e6});
  visit("--scale-json", &Options::json, "print the prediction as JSON");
};

}  // namespace

void ScalingOptions::add_to(CLI::App& app) { add_flags(app, "Scaling", *this, kEachFlag); }

void ScalingOptions::validate() const {
  if (global_batch && rank_batch) {
    throw ConfigError(fmt::format(
        "--scale-global-batch {} and --scale-rank-batch {} exclude each other: give one of them.",
        *global_batch, *rank_batch));
  }
  if (!predicts()) {
    expect_defaults(*this, kEachFlag, "--scale REPLICAS, for example --scale 1,2,4,8");
  }
}

ScalingRequest ScalingOptions::request(const nn::ModelConfig& custom) const {
  train::under_flag("--scale-algorithm", "", [&] {
    static_cast<void>(collectives::find_algorithm(OpKind::kAllReduce, algorithm));
  });
  ScalingRequest request{.model = sizes_of(train::under_flag(
                             "--scale-preset", "--estimate",
                             [&] { return memory::shape_for_estimate(preset, custom); })),
                         .machine = node_of("--scale", machine),
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

std::unique_ptr<train::Technique> scaling_prediction() {
  return std::make_unique<Prediction<ScalingOptions>>();
}

}  // namespace ultra::data_parallel
