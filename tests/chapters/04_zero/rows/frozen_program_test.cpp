// The executables with --freeze, started as a user starts them: checkpoints, refusals. That every
// layout trains as one rank does is random_layouts_ranks_test.cpp's.
//
// Covers: common/train/weights/frozen_weights.hpp

#include <filesystem>
#include <map>

#include "common/checkpoint/safetensors/safetensors.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using namespace test;

const std::string kFrozen = "--steps 4 --global-batch 8 --micro-batch 2 --dtype f64 --freeze ";

class FrozenProgram : public ProgramTest {
 protected:
  FrozenProgram() : ProgramTest("04_zero") {}

  /// The weights of a checkpoint by their names.
  [[nodiscard]] static std::map<std::string, std::vector<double>> values_of(
      const std::string& step) {
    const checkpoint::SafetensorsReader file(checkpoint::posix_files(),
                                             step + "/model.safetensors");
    std::map<std::string, std::vector<double>> values;
    for (const checkpoint::StoredTensor& tensor : file.tensors()) {
      const Tensor out = Tensor::empty(Device::cpu(), Shape(tensor.shape), DType::kF32);
      file.read(tensor.name, 0, out.view({out.numel()}));
      values[tensor.name] = out.to_vector();
    }
    return values;
  }
};

TEST_F(FrozenProgram, GoesOnFromACheckpointInAnotherLayout) {
  const std::string base = "--clip 0 " + kFrozen + "self_attn,embed_tokens ";
  const std::string folder_of = " --save-every 2 --checkpoint " + folder.path("saved");
  for (const char* rule : {"adamw", "muon"}) {
    std::filesystem::remove_all(folder.path("saved"));
    const std::string all = base + "--optimizer " + rule + " ";
    const json expected = losses_of(all + "--dp 2 --zero 3 --shards rows" + folder_of);
    const std::string half = folder.path("saved") + "/step-00000002";
    for (const char* layout :
         {"--dp 2 --zero 3 --shards rows", "--dp 2 --zero 2", "--dp 2 --zero 1", "--dp 1",
          "--dp 4 --zero 3 --shards rows --offload optimizer"}) {
      const json found = losses_of(all + layout + " --resume " + half);
      expect_near_losses(found, expected, 1e-10);
    }
  }
}

TEST_F(FrozenProgram, FrozenWeightsAreSavedAsTheyWereLoaded) {
  const std::string first = folder.path("first");
  const std::string second = folder.path("second");
  static_cast<void>(output_of("--steps 2 --checkpoint " + first));
  const std::string from = first + "/step-00000002";
  for (const char* layout : {"--dp 2 --zero 2", "--dp 3 --zero 3 --shards rows", "--dp 2"}) {
    std::filesystem::remove_all(second);
    static_cast<void>(output_of("--steps 2 --init " + from + " --freeze self_attn --checkpoint " +
                                second + " " + layout));
    const auto before = values_of(from);
    const auto after = values_of(second + "/step-00000002");
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, values] : before) {
      EXPECT_EQ(values == after.at(name), name.find("self_attn") != name.npos) << name;
    }
  }
}

TEST_F(FrozenProgram, WhatCannotBeIsRefused) {
  failed("--freeze embed_token.", 2,
         {"'embed_token.' is in no parameter's name", "lm_head.weight"});
  failed("--freeze model.,lm_head", 2, {"freezes all", "nothing would be trained"});
  failed("--dp 2 --zero 3 --freeze layers.1.mlp", 2,
         {"block 1 with 3 frozen parameters and 6", "--shards rows"});
  refused({{"--dp 2 --zero 3 --offload optimizer+params --freeze embed_tokens",
            {"--offload optimizer+params does not go together with --freeze"}}});
  const auto shapes = run_program("11_five_d", words_of("--shapes table --freeze lm_head"));
  EXPECT_EQ(shapes.exit_code, 2);
  EXPECT_THAT(shapes.err,
              HasSubstr("--shapes answers by formulas that count all weights as trained"));
  const TemporaryFolder elsewhere;
  const std::string saved = elsewhere.path("saved");
  expect_success(run({}, {"--steps", "2", "--freeze", "embed_tokens", "--checkpoint", saved}));
  failed("--steps 3 --resume " + saved, 2,
         {"was written with --freeze embed_tokens, this run has no --freeze"});
}

}  // namespace
}  // namespace ultra::zero
