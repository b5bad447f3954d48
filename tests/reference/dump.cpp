// Writes models of random shapes and what they compute, for comparison with other implementations
// (tests/reference/test_forward.py).
//
//   reference_dump FOLDER SEED
//
// Format: FOLDER/case_K/case.json describes the case: "config", "dtype", "normalizer", "loss" and
// "arrays", each with "name", "dtype" ("f4", "f8" or "i4", little-endian), "shape" and "file", whose
// bytes are the elements, row-major. Arrays: "tokens", "targets", "logits", and per parameter NAME
// "weight/NAME" and "gradient/NAME".
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/nn/model.hpp"
#include "tests/support/training/model.hpp"

namespace ultra {
namespace {

using nlohmann::json;

/// Collects the arrays of one case in its folder.
class CaseWriter {
 public:
  explicit CaseWriter(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }

  void add(const std::string& name, const Tensor& tensor) {
    const std::string file = fmt::format("{}.bin", arrays_.size());
    const Tensor dense = tensor.contiguous();
    std::ofstream out(folder_ / file, std::ios::binary);
    const void* elements = tensor.dtype() == DType::kF64   ? dense.data<double>()
                           : tensor.dtype() == DType::kF32 ? static_cast<void*>(dense.data<float>())
                                                           : dense.data<std::int32_t>();
    out.write(static_cast<const char*>(elements), static_cast<std::streamsize>(dense.nbytes()));
    out.exceptions(std::ios::failbit | std::ios::badbit);
    out.close();
    const char* dtype = tensor.dtype() == DType::kF64 ? "f8" : "f4";
    arrays_.push_back({{"name", name},
                       {"dtype", tensor.dtype() == DType::kI32 ? "i4" : dtype},
                       {"shape", std::vector<std::size_t>(tensor.shape().dims().begin(),
                                                          tensor.shape().dims().end())},
                       {"file", file}});
  }

  void finish(json description) {
    description["arrays"] = arrays_;
    std::ofstream out(folder_ / "case.json");
    out.exceptions(std::ios::failbit | std::ios::badbit);
    out << description.dump(1);
  }

 private:
  std::filesystem::path folder_;
  json arrays_ = json::array();
};

json to_json(const nn::ModelConfig& config) {
  return {{"vocab_size", config.vocab_size},     {"hidden_size", config.hidden_size},
          {"num_layers", config.num_layers},     {"num_heads", config.num_heads},
          {"num_kv_heads", config.num_kv_heads}, {"ffn_hidden_size", config.ffn_hidden_size},
          {"rope_theta", config.rope_theta},     {"norm_epsilon", config.norm_epsilon}};
}

void write_case(test::Random& random, const std::filesystem::path& folder, DType dtype) {
  const Device device = Device::cpu();
  const nn::ModelConfig config = test::random_model_config(random);
  nn::DenseFactory factory;
  nn::Model model(config, device, dtype, random.between(0, 1000), factory);
  test::randomize_weights(random, model);
  const test::MicroBatch batch = test::random_micro_batch(
      random, device, config, random.between(1, 3), random.between(1, config.max_seq_len));
  const double normalizer = random.uniform(1.0, 20.0);

  nn::Saved saved;
  const Tensor logits = model.forward(batch.tokens, saved);
  CaseWriter writer(folder);
  writer.add("tokens", batch.tokens);
  writer.add("targets", batch.targets);
  writer.add("logits", logits);  // before the loss, which puts the gradient in their place
  const double loss = model.loss(logits, batch.targets, normalizer, saved);
  model.backward(saved);
  for (const nn::Parameter* parameter : model.parameters()) {
    writer.add("weight/" + parameter->name(), parameter->value());
    writer.add("gradient/" + parameter->name(), parameter->grad());
  }
  writer.finish({{"config", to_json(config)},
                 {"dtype", to_string(dtype)},
                 {"normalizer", normalizer},
                 {"loss", loss}});
}

void write_cases(const std::filesystem::path& folder, std::uint64_t seed) {
  constexpr int kCases = 6;
  test::Random random(seed);
  for (int i = 0; i < kCases; ++i) {
    for (const DType dtype : test::kFloatDTypes) {
      write_case(random, folder / fmt::format("case_{}_{}", i, to_string(dtype)), dtype);
    }
  }
}

}  // namespace
}  // namespace ultra

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: reference_dump FOLDER SEED\n");
    return 2;
  }
  try {
    ultra::write_cases(argv[1], std::stoull(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
  return 0;
}
