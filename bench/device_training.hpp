#pragma once
/// @file
/// `bench_train_step --device cuda`: tokens per second and model FLOPs utilisation of the whole trainer on
/// one device.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "bench/timing.hpp"
#include "chapters/11_five_d/five_d.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/cli/program.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::bench {

/// @brief What is trained, and how.
struct DeviceTraining {
  std::string device = "cuda";      ///< --device, as for every program
  std::string model = "gpt2-124m";  ///< --model: one of model_flags()
  std::string precision = "bf16";   ///< --precision, as for 10_mixed_precision
  std::size_t micro_batch = 8;      ///< --micro-batch: sequences of a step, in one pass
  std::size_t steps = 20;           ///< --steps: the first five are not counted
  std::string recompute = "none";   ///< --recompute, as for 01_memory
  std::string matmul = "vendor";    ///< --matmul, as for every program
  double peak_tflops = 989;         ///< --peak-tflops: dense bf16 of an H100 SXM, by its data sheet
  std::string metrics = {};         ///< --metrics: where the line of JSON goes
};

/// @brief The flags of the models: Llamas of GPT-2's 124 million weights and of Llama 3.2 1B's shape, and
/// one for trying out.
[[nodiscard]] inline const std::map<std::string, std::string>& model_flags() {
  static const std::map<std::string, std::string> all = {
      {"tiny", "--layers 2 --hidden 32 --heads 4 --kv-heads 2 --ffn 48 --seq 16"},
      {"gpt2-124m",
       "--layers 12 --hidden 768 --heads 12 --kv-heads 12 --ffn 2048 --seq 1024 --vocab 50304 "
       "--tied-embeddings"},
      {"llama-1b",
       "--layers 16 --hidden 2048 --heads 32 --kv-heads 8 --ffn 8192 --seq 4096 --vocab 128256 "
       "--tied-embeddings"}};
  return all;
}

/// @brief FLOPs of a token, forward and backward: 6 per weight of the matrix products and 12 L h s for
/// attention over all positions (PaLM, app. B).
[[nodiscard]] inline double flops_per_token(const nn::ModelConfig& model, std::size_t weights) {
  const std::size_t looked_up = model.tied_embeddings ? 0 : model.vocab_size * model.hidden_size;
  return 6.0 * static_cast<double>(weights - looked_up) +
         12.0 * static_cast<double>(model.num_layers * model.hidden_size * model.max_seq_len);
}

/// @brief The line of JSON about a training.
[[nodiscard]] inline Json described(const DeviceTraining& what, const train::Setup& setup,
                                    const train::TrainResult& result) {
  constexpr std::size_t kWarmUp = 5;
  std::vector<double> rates;
  for (std::size_t s = std::min(kWarmUp, result.steps.size() - 1); s < result.steps.size(); ++s) {
    rates.push_back(result.steps[s].tokens_per_second);
  }
  const double tokens_per_second = median(rates);
  const double flops = flops_per_token(setup.train.model, result.parameters);
  return {
      {"model", what.model},
      {"parameters", result.parameters},
      {"device", result.ranks.front().device.empty() ? what.device : result.ranks.front().device},
      {"precision", what.precision},
      {"matmul", what.matmul},
      {"tokens_per_step", what.micro_batch * setup.train.model.max_seq_len},
      {"tokens_per_second", tokens_per_second},
      {"teraflops", flops * tokens_per_second / 1e12},
      {"mfu", flops * tokens_per_second / (what.peak_tflops * 1e12)},
      {"peak_bytes", result.ranks.front().memory.peak_total().bytes},
      {"last_loss", result.steps.back().loss}};
}

/// @brief 256 KiB of text in a file of its own; what it says does not change the time.
class TextFile {
 public:
  TextFile()
      : path_(std::filesystem::temp_directory_path() / fmt::format("bench.{}.txt", ::getpid())) {
    std::ofstream file(path_);
    for (std::size_t i = 0; i < 1 << 18; ++i) file << static_cast<char>('a' + (i * i >> 3) % 26);
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  /// @brief Where it is.
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// @brief Trains on one rank by the program that has every technique.
[[nodiscard]] inline Json train_on_device(const DeviceTraining& what) {
  const TextFile text;
  std::istringstream words(fmt::format(
      "{} --device {} --precision {} --micro-batch {} --global-batch {} --steps {} --warmup 2 "
      "--recompute {}",
      model_flags().at(what.model), what.device, what.precision, what.micro_batch, what.micro_batch,
      what.steps, what.recompute));
  std::vector<std::string> flags = {"--data", text.path()};
  for (std::string word; words >> word;) flags.push_back(word);
  if (what.device == "cuda") flags.insert(flags.end(), {"--matmul", what.matmul});
  const train::Setup setup = train::parse_setup(five_d::techniques(), flags);
  Json found;
  run_ranks(
      1,
      [&](Communicator& world) { found = described(what, setup, train::train_with(setup, world)); },
      setup.rank_options());
  return found;
}

/// @brief The program: flags in, a line of JSON out.
/// @return main's exit code.
[[nodiscard]] inline int run_device_training(int argc, char** argv) {
  DeviceTraining what;
  return train::run_program(
      {.name = "bench_train_step --device cuda",
       .description = "Tokens per second and model FLOPs utilisation of a training on one device",
       .add_flags =
           [&](CLI::App& app) {
             const train::Flags flags(app, "Training");
             flags.add("--device", what.device, "cpu, cuda or emulated");
             flags.add_one_of("--model", what.model, {"gpt2-124m", "llama-1b", "tiny"},
                              "its shape");
             flags.add("--precision", what.precision, "as for 10_mixed_precision");
             flags.add("--micro-batch", what.micro_batch, "sequences of a step, in one pass");
             flags.add("--steps", what.steps, "the first five are not counted", {2, 1'000'000});
             flags.add("--recompute", what.recompute, "as for 01_memory");
             flags.add("--matmul", what.matmul, "as for every program");
             flags.add("--peak-tflops", what.peak_tflops, "dense, of the device, for the MFU");
             flags.add("--metrics", what.metrics, "also write the line of JSON to this file");
           },
       .body =
           [&] {
             const std::string found = train_on_device(what).dump();
             fmt::print("{}\n", found);
             if (!what.metrics.empty()) std::ofstream(what.metrics) << found << "\n";
           }},
      argc, argv);
}

}  // namespace ultra::bench
