#include "chapters/01_memory/estimate/estimate_report.hpp"

#include <nlohmann/json.hpp>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::memory {
namespace {

EstimateRequest request_of(const char* model, std::size_t seq, std::size_t size = 1) {
  return {.shape = find_preset(model), .batch = {.size = size, .seq_len = seq}};
}

double gb(std::size_t bytes) { return static_cast<double>(bytes) / 1e9; }

/// The line of the table that starts with `name`, its spaces squeezed.
std::string row(const std::string& table, const std::string& name) {
  std::size_t begin = table.find("\n  " + name);
  if (begin == std::string::npos) return "no row '" + name + "' in:\n" + table;
  begin += 3;
  std::string line;
  for (const char c : table.substr(begin, table.find('\n', begin) - begin)) {
    if (c != ' ' || line.empty() || line.back() != ' ') line += c;
  }
  return line;
}

// Llama-2-7B has 6,738,415,616 parameters (Hugging Face, sum over the checkpoint): at the 16 bytes
// of Rajbhandari et al. 2020 (arXiv 1910.02054, sec. 3.1) 107.81 GB, not the nominal 7B's 112.
TEST(EstimateMemory, Llama2StatesTake16BytesPerParameter) {
  EstimateRequest request = request_of("llama-7b", 4096);
  const MemoryEstimate estimate = estimate_memory(request);
  EXPECT_EQ(estimate.parameter_count, 6'738'415'616u);
  EXPECT_NEAR(gb(estimate.states.total()), 107.81, 0.005);
  request.precision = NumberFormats::kFp32;
  EXPECT_EQ(estimate_memory(request).states.total(), estimate.states.total()) << "4 + 4 + 8";
  request.precision = NumberFormats::kBf16MixedFp32Grads;
  EXPECT_EQ(estimate_memory(request).states.total(), 20u * 6'738'415'616u) << "2 + 6 + 12";
}

// Korthikanti et al. 2022, arXiv 2205.05198, eq. 1 and table 2, on GPT-3 and one sequence of 2048.
TEST(EstimateMemory, Gpt3KeepsWhatKorthikantiSays) {
  EstimateRequest request = request_of("gpt3-175b", 2048);
  const auto kept_gb = [&](Recompute mode) {
    request.recompute.mode = mode;
    return gb(estimate_memory(request).kept_by_blocks);
  };
  EXPECT_NEAR(kept_gb(Recompute::kNone), 275.41, 0.005);
  EXPECT_NEAR(kept_gb(Recompute::kSelective), 82.14, 0.005);
  EXPECT_NEAR(kept_gb(Recompute::kFull), 4.83, 0.005);
  request.recompute.recompute_every = 10;
  EXPECT_NEAR(kept_gb(Recompute::kFull), 4.83 / 96 * 10, 0.005) << "10 groups: 9 of 10, 1 of 6";
}

TEST(EstimateMemory, PartsAddUp) {
  const MemoryEstimate e = estimate_memory(request_of("llama-8b", 8192, 2));
  EXPECT_EQ(e.kept_by_blocks, 32 * e.activations_per_layer);
  EXPECT_EQ(e.peak_activations, e.kept_by_blocks + e.outside.embedding + e.outside.head)
      << "without recomputation everything is there when the loss is computed";
  EXPECT_EQ(e.total(), e.states.total() + e.peak_activations);
}

TEST(EstimateMemory, CountsGpusUpwards) {
  MemoryEstimate estimate;
  estimate.states.parameters = kGpuBytes;
  EXPECT_EQ(estimate.min_gpus(), 1u);
  estimate.peak_activations = 1;
  EXPECT_EQ(estimate.min_gpus(), 2u);
}

TEST(FormatEstimate, PrintsEveryCategoryInBothUnits) {
  EstimateRequest request = request_of("gpt3-175b", 2048);
  const std::string table = format_estimate(estimate_memory(request));
  EXPECT_EQ(row(table, "number of parameters"), "number of parameters 174,604,259,328");
  EXPECT_EQ(row(table, "parameters"), "parameters 349.21 GB 325.23 GiB 2 B per parameter");
  EXPECT_EQ(row(table, "gradients"), "gradients 349.21 GB 325.23 GiB 2 B per parameter");
  EXPECT_EQ(row(table, "optimizer states"),
            "optimizer states 2095.25 GB 1951.35 GiB 12 B per parameter");
  EXPECT_EQ(row(table, "  kept by all layers"),
            " kept by all layers 275.41 GB 256.50 GiB 96 layers");
  EXPECT_THAT(table, HasSubstr("Fits on one 80 GB GPU: no. At least 39 GPUs"))
      << "2793.67 GB of states, 275.41 GB in the layers and less than 1 GB around them: 3.07 TB";
  request.recompute = {.mode = Recompute::kFull, .recompute_every = 10};
  EXPECT_THAT(row(format_estimate(estimate_memory(request)), "  kept by all layers"),
              HasSubstr("10 inputs, one per 10 layers"));
  EXPECT_EQ(row(format_estimate(estimate_memory(request)), "  one layer, recomputed"),
            " one layer, recomputed 2.87 GB 2.67 GiB");
}

// GPT-2: 124,439,808 parameters (Hugging Face, sum over the checkpoint).
TEST(FormatEstimate, CountsSmallModelsInMegabytes) {
  const std::string table = format_estimate(estimate_memory(request_of("gpt2-124m", 1024)));
  EXPECT_EQ(row(table, "optimizer states"),
            "optimizer states 1493.28 MB 1424.10 MiB 12 B per parameter");
}

TEST(FormatEstimate, SaysWhenItFits) {
  EXPECT_THAT(format_estimate(estimate_memory(request_of("llama-1b", 2048))),
              AllOf(HasSubstr("llama-1b"), HasSubstr("Fits on one 80 GB GPU: yes.")));
}

TEST(EstimateToJson, HoldsWholeNumbersOfBytes) {
  EstimateRequest request = request_of("llama-70b", 4096);
  request.recompute.mode = Recompute::kSelective;
  const MemoryEstimate estimate = estimate_memory(request);
  const auto json = nlohmann::json::parse(estimate_to_json(estimate).dump());
  EXPECT_EQ(json["model"]["name"], "llama-70b");
  EXPECT_EQ(json["model"]["kv_heads"], 8);
  EXPECT_EQ(json["model"]["tied_embeddings"], false);
  EXPECT_EQ(json["precision"], "bf16-mixed");
  EXPECT_EQ(json["recompute"], "selective");
  EXPECT_EQ(json["parameters"], 70'553'706'496u);
  EXPECT_EQ(json["bytes"]["optimizer"], 12 * 70'553'706'496u);
  EXPECT_EQ(json["bytes"]["activations"], estimate.peak_activations);
  EXPECT_EQ(json["bytes"]["total"], estimate.total());
  EXPECT_EQ(json["activation_bytes"]["kept_by_layers"], estimate.kept_by_blocks);
  EXPECT_EQ(json["fits_80gb_gpu"], false);
  EXPECT_EQ(json["min_80gb_gpus"], estimate.min_gpus());
}

std::string refusal(const EstimateRequest& request) {
  return test::message_of<ConfigError>([&] { (void)estimate_memory(request); });
}

TEST(EstimateRequests, ImpossibleOnesAreRefusedInOneLine) {
  EXPECT_EQ(refusal(request_of("gpt3-175b", 4096)),
            "--seq 4096 is longer than the 2048 learned positions of gpt3-175b.");
  EXPECT_THAT(refusal(request_of("llama-8b", 0)), HasSubstr("--seq is 0"));
  EXPECT_THAT(refusal(request_of("llama-8b", 8, 0)), HasSubstr("--micro-batch is 0"));
  EXPECT_THAT(refusal(request_of("llama-8b", 1'000'000'000'000, 1'000'000'000'000)),
              HasSubstr("more than 1e18 bytes"));

  EstimateRequest request = request_of("llama-8b", 8);
  request.recompute.recompute_every = 4;
  EXPECT_THAT(refusal(request), HasSubstr("--recompute-every 4 needs --recompute full"));

  request = request_of("llama-8b", 8);
  request.shape.num_layers = 0;
  EXPECT_THAT(refusal(request), HasSubstr("--layers is 0"));
  request = request_of("llama-8b", 8);
  request.shape.num_heads = 24;
  EXPECT_THAT(refusal(request), HasSubstr("4096 % 24 = 16"));
  request = request_of("llama-8b", 8);
  request.shape.num_kv_heads = 3;
  EXPECT_THAT(refusal(request), HasSubstr("32 % 3 = 2"));
  request = request_of("gpt2-124m", 8);
  request.shape.num_kv_heads = 4;
  EXPECT_THAT(refusal(request), HasSubstr("one key/value head per query head"));
}

}  // namespace
}  // namespace ultra::memory
