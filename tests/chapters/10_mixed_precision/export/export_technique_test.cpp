// Checkpoints written again with weights of two bytes, as transformers reads them.
//
// Covers: chapters/10_mixed_precision/export/export_technique.hpp

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/checkpoint/llama_folder.hpp"
#include "common/checkpoint/safetensors/safetensors.hpp"
#include "common/tensor/half_types.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using checkpoint::SafetensorsReader;
using checkpoint::StoredType;
using nlohmann::json;

constexpr const char* kModel = "--layers 2 --hidden 32 --heads 4 --kv-heads 2 --ffn 48 ";

class HalfExport : public ultra::test::ProgramTest {
 protected:
  HalfExport() : ProgramTest("10_mixed_precision") {}

  std::string saved(const std::string& flags) {
    const std::string to = folder.path("saved");
    static_cast<void>(output_of(kModel + flags + " --checkpoint " + to));
    return to;
  }

  std::string exported(const std::string& from, const std::string& flags = "") {
    const std::string to = folder.path("exported");
    output = output_of("--export " + from + " --export-to " + to + " " + flags);
    return to;
  }

  std::string output;
};

SafetensorsReader weights_of(const std::string& folder) {
  return {checkpoint::posix_files(), folder + "/model.safetensors"};
}

TEST_F(HalfExport, EveryWeightIsTheNearestOfTwoBytes) {
  const std::string from = saved("--steps 2 --precision bf16 --dp 2 --zero 3") + "/step-00000002";
  for (const auto& [flag, stored, dtype, name] :
       {std::tuple{"bf16", StoredType::kBF16, DType::kBF16, "bfloat16"},
        std::tuple{"f16", StoredType::kF16, DType::kF16, "float16"}}) {
    SCOPED_TRACE(flag);
    const std::string to = exported(from, std::string("--export-dtype ") + flag);
    const SafetensorsReader wide = weights_of(from);
    const SafetensorsReader half = weights_of(to);
    EXPECT_EQ(half.metadata(), wide.metadata());
    ASSERT_EQ(half.tensors().size(), wide.tensors().size());
    for (const auto& tensor : wide.tensors()) {
      const auto* found = half.find(tensor.name);
      ASSERT_NE(found, nullptr) << tensor.name;
      EXPECT_EQ(found->type, stored) << tensor.name;
      EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
      const Tensor expected = Tensor::empty(Device::cpu(), {tensor.numel()}, DType::kF32);
      const Tensor rounded = Tensor::empty(Device::cpu(), {tensor.numel()}, dtype);
      wide.read(tensor.name, 0, expected);
      half.read(tensor.name, 0, rounded);
      EXPECT_EQ(rounded.to_vector(), cast(expected, dtype).to_vector()) << tensor.name;
    }
    json before = json::parse(ultra::test::read_file(from + "/config.json"));
    const json after = json::parse(ultra::test::read_file(to + "/config.json"));
    EXPECT_EQ(before.at("torch_dtype"), "float32");
    before["torch_dtype"] = name;
    EXPECT_EQ(after, before);
    std::filesystem::remove_all(to);
  }
}

// It is a model's folder like any other, and half as long.
TEST_F(HalfExport, TrainingCanBeginWithIt) {
  const std::string from = saved("--steps 2 --precision bf16");
  const std::string to = exported(from);
  EXPECT_THAT(output, HasSubstr("step-00000002"));
  EXPECT_THAT(output, HasSubstr("bf16"));
  static_cast<void>(answer_to("--init " + to + " --steps 1 --global-batch 4 --precision bf16"));
  const auto bytes = [](const std::string& model) {
    return std::filesystem::file_size(model + "/model.safetensors");
  };
  EXPECT_LT(bytes(to), bytes(from + "/step-00000002") / 2 + 2000);
}

TEST_F(HalfExport, HistoriesOfFp8StayBehind) {
  const std::string to = exported(saved("--steps 1 --precision fp8"));
  const SafetensorsReader weights = weights_of(to);
  EXPECT_EQ(weights.tensors().size(), 2U * 9 + 3);
  for (const auto& tensor : weights.tensors()) {
    EXPECT_THAT(tensor.name, ::testing::Not(HasSubstr("fp8")));
  }
}

// Mixtures of experts -----------------------------------------------------------------------------

constexpr const char* kMixtral = "--steps 1 --experts 4 --top-k 2 --expert-ffn 16 ";

// Of config.json other programs learn which model the weights are of.
TEST_F(HalfExport, AMixtureLikeMixtralsIsMixtral) {
  const std::string from = saved(kMixtral) + "/step-00000001";
  const std::string to = exported(from);
  for (const std::string& model : {from, to}) {
    const json config = json::parse(ultra::test::read_file(model + "/config.json"));
    EXPECT_EQ(config.at("architectures"), json::array({"MixtralForCausalLM"}));
    EXPECT_EQ(config.at("model_type"), "mixtral");
    EXPECT_EQ(config.at("num_local_experts"), 4);
    EXPECT_EQ(config.at("num_experts_per_tok"), 2);
    EXPECT_EQ(config.at("intermediate_size"), 16);
    EXPECT_EQ(config.at("torch_dtype"), model == from ? "float32" : "bfloat16");
  }
  const std::string again = "--steps 1 --global-batch 4 --experts 4 --top-k 2 --init ";
  static_cast<void>(answer_to(again + to));
  static_cast<void>(answer_to(again + from));
}

TEST_F(HalfExport, AMixtureBehindNormedHeadsIsQwen3s) {
  const std::string to = exported(saved(std::string(kMixtral) + "--qk-norm --head-dim 12"));
  const json config = json::parse(ultra::test::read_file(to + "/config.json"));
  EXPECT_EQ(config.at("architectures"), json::array({"Qwen3MoeForCausalLM"}));
  EXPECT_EQ(config.at("num_experts"), 4);
  EXPECT_EQ(config.at("moe_intermediate_size"), 16);
  EXPECT_EQ(config.at("head_dim"), 12);
  EXPECT_NE(weights_of(to).find("model.layers.0.mlp.experts.3.down_proj.weight"), nullptr);
  static_cast<void>(answer_to("--steps 1 --global-batch 4 --experts 4 --top-k 2 --init " + to));
}

// Earlier programs wrote a Llama's config.json around a mixture's weights.
TEST_F(HalfExport, AnEarlierCheckpointOfAMixtureIsMixtralAllTheSame) {
  const std::string from = saved(kMixtral) + "/step-00000001";
  json config = json::parse(ultra::test::read_file(from + "/config.json"));
  config["model_type"] = "llama";
  config["architectures"] = {"LlamaForCausalLM"};
  config["intermediate_size"] = 48;
  std::ofstream(from + "/config.json") << config.dump();
  const std::string to = exported(from);
  const json found = json::parse(ultra::test::read_file(to + "/config.json"));
  EXPECT_EQ(found.at("model_type"), "mixtral");
  EXPECT_EQ(found.at("intermediate_size"), 16);
  std::filesystem::remove(from + "/training.json");
  const auto result =
      run_words("--export " + from + " --export-to " + folder.path("other") + " --steps 1");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("names no published mixture"),
                                HasSubstr("there is no training.json")));
}

TEST_F(HalfExport, AMixtureThatNobodyElseComputesIsRefused) {
  const std::string model = "--steps 1 --experts 4 --expert-ffn 16 ";
  int number = 0;
  for (const std::string flag : {"--router sigmoid", "--top-k 1", "--shared-experts 1",
                                 "--balance bias", "--capacity-factor 1.5", "--qkv-bias"}) {
    SCOPED_TRACE(flag);
    const std::string from = folder.path("saved" + std::to_string(number++));
    static_cast<void>(output_of(kModel + model + flag + " --checkpoint " + from));
    const std::string step = from + "/step-00000001";
    const json config = json::parse(ultra::test::read_file(step + "/config.json"));
    EXPECT_EQ(config.at("model_type"), "ultra_scale_mixture");
    const auto result = run_words("--export " + from + " --export-to " + folder.path("to"));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(ultra::test::error_lines(result.err), 1) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(flag.substr(0, flag.find(' '))), HasSubstr(step),
                                  HasSubstr("What they have"), HasSubstr("--init")));
    EXPECT_THAT(folder.names(), ::testing::Not(::testing::Contains(HasSubstr("to"))));
    static_cast<void>(answer_to(
        "--init " + step + " --global-batch 4 --experts 4 --expert-ffn 16 " + "--steps 1 " + flag));
  }
}

// Into the folder that the program was started in, and nothing is left of an export that failed.
TEST_F(HalfExport, LeavesTheWholeFolderOrNothing) {
  const std::string from = saved("--steps 1") + "/step-00000001";
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const std::string answer = answer_to("--export " + from + " --export-to here");
  std::filesystem::current_path(here);
  EXPECT_THAT(answer, HasSubstr("'here'"));
  EXPECT_TRUE(std::filesystem::exists(folder.path("here/model.safetensors")));
  std::filesystem::resize_file(from + "/model.safetensors", 1000);
  const auto result = run_words("--export " + from + " --export-to " + folder.path("to"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("model.safetensors"));
  EXPECT_THAT(folder.names(), ::testing::Not(::testing::Contains(HasSubstr("to"))));
}

TEST_F(HalfExport, IsRefusedInWords) {
  const std::string from = saved("--steps 1");
  const std::string to = folder.path("to");
  for (const auto& [flags, part] : std::vector<std::pair<std::string, std::string>>{
           {"--export " + from, "--export needs --export-to"},
           {"--export-to " + to, "no meaning without --export"},
           {"--export " + from + " --export-to " + from, "exists already"},
           {"--export " + folder.path("none") + " --export-to " + to, "no checkpoint"},
           {"--export " + from + " --export-to " + to + " --export-dtype f32", "--export-dtype"},
           {"--export " + from + " --export-to " + to + " --formats", "--export"}}) {
    SCOPED_TRACE(flags);
    const auto result = run(flags);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(ultra::test::error_lines(result.err), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(to));
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
