#include "chapters/03_data_parallel/options/data_parallel_options.hpp"

#include <fmt/format.h>

#include <utility>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "chapters/03_data_parallel/compression/compressed_exchange.hpp"
#include "chapters/03_data_parallel/compression/compression_options.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::data_parallel {
namespace {

const std::vector<train::Choice<GradientOverlap>> kGradientOverlaps = {
    {"none", GradientOverlap::kNone},
    {"per-parameter", GradientOverlap::kPerParameter},
    {"bucketed", GradientOverlap::kBucketed}};

collectives::BookOptions book_options(const std::string& all_reduce) {
  return {.names = {{OpKind::kAllReduce, all_reduce}}, .tuning = {}};
}

}  // namespace

void ask_for_ranks(train::CommOptions& comm, std::size_t needed, const std::string& asked) {
  if (comm.launched && static_cast<std::size_t>(*comm.launched) != needed) {
    throw ConfigError(
        fmt::format("{}: {} ranks are needed, but mpirun started {} processes. Start mpirun -n {}.",
                    asked, needed, *comm.launched, needed));
  }
  if (comm.ranks && *comm.ranks != needed) {
    throw ConfigError(fmt::format("{}: {} ranks are needed, but --ranks is {}. Leave --ranks out.",
                                  asked, needed, *comm.ranks));
  }
  if (!comm.launched && !comm.elsewhere) {
    train::expect_thread_ranks(needed, fmt::format("{} needs {}", asked, needed));
  }
  comm.ranks = needed;
}

std::string_view to_string(GradientOverlap overlap) {
  return std::ranges::find(kGradientOverlaps, overlap, &train::Choice<GradientOverlap>::second)
      ->first;
}

void DataParallelOptions::add_to(CLI::App& app) {
  const char* group = "Data parallel";
  const train::Flags flags(app, group);
  flags.add("--dp", dp, "replicas of the model [as many as there are ranks]",
            {1, train::kMostRanks});
  train::add_choice(app, "--overlap", overlap, kGradientOverlaps, group,
                    "when gradients travel: none (after the backward pass), per-parameter or "
                    "bucketed (while it runs)");
  flags.add("--bucket-mb", bucket_mb, "10^6 bytes of gradients in a bucket", {1e-6, 1e6});
  flags.add("--all-reduce", all_reduce,
            "algorithm that adds up gradients, of those that --op all_reduce lists");
  flags.add_parsed(
      "--compress",
      [this](const std::string& text) {
        static_cast<void>(parse_compression(text));
        compress = text;
      },
      "gradients on the wire: none, topk:FRACTION, int8, onebit or powersgd:RANK", compress);
  flags.add_switch("!--no-error-feedback", error_feedback,
                   "forget what compression leaves out, instead of sending it later");
  flags.add("--compress-warmup", compress_warmup,
            "uncompressed steps before; then AdamW keeps its second moments",
            {0, train::kMostSteps});
  flags.add("--check-replicas", check_replicas,
            "compare the replicas' weights every so many steps [0: never]", {0, train::kMostSteps});
  train::Flags(app, "").add_parsed(
      "--sync",
      [](const std::string&) {
        throw ConfigError(
            "these replicas add up their gradients themselves. Parameter servers are a program of "
            "their own: ./workbook run 03/parameter_server --dp N --servers K.");
      },
      "");
  train::Flags(app, "").add_parsed(
      "--scale",
      [](const std::string&) {
        throw ConfigError(
            "a step on another machine is recorded with --on, and lists of replicas stand behind "
            "--dp: --model llama-1b --dp 1,8,64 --on dgx-h100.");
      },
      "");
}

void DataParallelOptions::validate(std::string_view optimizer) const {
  train::under_flag("--all-reduce", "", [&] { static_cast<void>(algorithms()); });
  const bool compresses = parse_compression(compress).kind != CompressionKind::kNone;
  if (!compresses && !error_feedback) {
    throw ConfigError(
        "--no-error-feedback has no meaning without --compress: nothing is left out that could be "
        "sent later.");
  }
  if (!compresses && compress_warmup > 0) {
    throw ConfigError("--compress-warmup has no meaning without --compress.");
  }
  if (compress_warmup > 0 && optimizer != "adamw") {
    throw ConfigError(fmt::format(
        "--compress-warmup keeps AdamW's second moments after the warm-up, and --optimizer {} does "
        "not keep one of each weight. Leave out --compress-warmup or --optimizer.",
        optimizer));
  }
}

void DataParallelOptions::resolve_ranks(train::Setup& setup) const {
  const auto [of_replica, replica_flags] = setup.ranks_per_replica();
  if (dp) {
    const std::string asked = fmt::format("--dp {}", *dp);
    return ask_for_ranks(setup.comm, *dp * of_replica,
                         replica_flags.empty() ? asked : asked + " and " + replica_flags);
  }
  // One replica, unless there are ranks for more.
  if (setup.comm.ranks || setup.comm.launched || of_replica == 1) return;
  ask_for_ranks(setup.comm, of_replica, replica_flags);
}

void expect_work_for_all(std::size_t global_batch, int replicas) {
  if (checked_cast<std::size_t>(replicas) <= global_batch) return;
  throw ConfigError(fmt::format(
      "{} replicas cannot share a --global-batch of {}: each needs at least one sequence. Choose "
      "--dp of at most {}, or a larger --global-batch.",
      replicas, global_batch, global_batch));
}

std::size_t DataParallelOptions::bucket_capacity(DType dtype) const {
  return static_cast<std::size_t>(bucket_mb * 1e6 / static_cast<double>(size_of(dtype)));
}

std::shared_ptr<const comm::CollectiveAlgorithms> DataParallelOptions::algorithms() const {
  return std::make_shared<const collectives::BookAlgorithms>(book_options(all_reduce));
}

std::unique_ptr<train::GradientExchange> DataParallelOptions::make_exchange(
    const train::StatesScope& scope) const {
  const Compression compression = parse_compression(compress);
  if (overlap == GradientOverlap::kNone && compression.kind == CompressionKind::kNone) {
    return collectives::sum_after_backward(scope.parameters, scope.data);
  }
  const DType dtype = scope.context.options.formats().gradients;
  const std::size_t capacity =
      overlap == GradientOverlap::kPerParameter ? 0 : bucket_capacity(dtype);
  const Flush flush = overlap == GradientOverlap::kNone ? Flush::kAfterBackward : Flush::kWhenReady;
  MakeBucketExchange exchange = data_parallel::make_exchange(
      compression, scope.data, error_feedback ? ErrorFeedback::kOn : ErrorFeedback::kOff);
  if (compress_warmup > 0) {
    exchange = switch_exchange(compress_warmup, all_reduce_exchange(scope.data), exchange);
  }
  if (compression.kind == CompressionKind::kNone) {
    return sum_in_buckets(scope.parameters, capacity, flush, exchange);
  }
  return sum_in_buckets(scope.parameters, buckets_of_equal_copies(scope.parameters, capacity),
                        flush, exchange);
}

optim::Rule DataParallelOptions::rule(optim::Rule adamw) const {
  return keep_second_moment(compress_warmup, std::move(adamw));
}

train::ExtraConfig DataParallelOptions::config() const {
  return {{"overlap", std::string(to_string(overlap))},
          {"bucket_mb", bucket_mb},
          {"all_reduce", all_reduce},
          {"compress", compress},
          {"compress_warmup", compress_warmup},
          {"error_feedback", std::string(error_feedback ? "on" : "off")}};
}

}  // namespace ultra::data_parallel
