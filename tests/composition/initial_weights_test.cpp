// --init in every layout: the weights of the file, number for number, and no byte of another rank's.
#include <atomic>
#include <filesystem>

#include "build_config.hpp"
#include "common/checkpoint/llama_folder.hpp"
#include "common/checkpoint/models/config_json.hpp"
#include "common/train/weights/initial_weights.hpp"
#include "common/train/weights/piece_runs.hpp"
#include "tests/composition/hand_written.hpp"
#include "tests/composition/outcome.hpp"
#include "tests/support/files/llama_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::composition {
namespace {

using checkpoint::StoredType;

nn::ModelConfig a_model(bool tied) {
  return {.vocab_size = 131,
          .hidden_size = 16,
          .num_layers = 4,
          .num_heads = 4,
          .num_kv_heads = 2,
          .ffn_hidden_size = 24,
          .max_seq_len = 40,
          .rope_theta = 500.0,
          .norm_epsilon = 1e-4,
          .tied_embeddings = tied};
}

std::string flags_of(const std::string& folder, const std::string& more) {
  return fmt::format(
      "--init {} --seq 12 --dtype f64 --global-batch 8 --micro-batch 2 --warmup 1 "
      "--data {}/tests/data/arithmetic.txt {}",
      folder, build::kSourceDir, more);
}

class InitialWeights : public test::RandomTest {
 protected:
  std::string write(const test::LlamaFolderSpec& spec) {
    name = fmt::format("model-{}", ++folders);
    weights = test::write_llama_folder(parent, name, spec, random);
    return parent.path(name);
  }

  test::TemporaryFolder parent;
  std::string name;  ///< of the last folder
  test::LlamaWeights weights;

 private:
  int folders = 0;
};

/// Layouts that split weights in every way there is.
std::vector<std::string> layouts() {
  return {"--dp 2",
          "--dp 2 --zero 1",
          "--dp 3 --zero 2",
          "--dp 2 --zero 3",
          "--tp 2",
          "--tp 4 --sp on",
          "--dp 2 --tp 2 --sp on --zero 3 --recompute full",
          "--dp 2 --zero 3 --offload optimizer+params --offload-to memory",
          "--dp 2 --zero 1 --offload optimizer --offload-to memory"};
}

TEST_F(InitialWeights, AreThoseOfTheFileInEveryLayoutAndType) {
  const StoredType types[] = {StoredType::kF32, StoredType::kBF16, StoredType::kF16,
                              StoredType::kF64};
  std::size_t next = 0;
  for (const std::string& layout : layouts()) {
    const test::LlamaFolderSpec spec{
        .model = a_model(next % 2 == 1), .type = types[next % 4], .files = 1 + 2 * (next / 2 % 2)};
    ++next;
    SCOPED_TRACE(fmt::format("{} {} {} files", layout, to_string(spec.type), spec.files));
    const RankRun found = outcome_of(flags_of(write(spec), "--steps 1 --lr 0 " + layout));
    EXPECT_EQ(found.weights, weights) << "nothing is learnt at rate 0";
  }
}

TEST_F(InitialWeights, OfStagesAreThoseOfTheFile) {
  for (const bool tied : {false, true}) {
    const std::string flags = flags_of(write({.model = a_model(tied)}), "--steps 1 --lr 0 --dp 2");
    const Extra pipeline = [] {
      return std::make_unique<HandWrittenPipeline>(one_forward_one_backward(2, 4, 2));
    };
    EXPECT_EQ(outcome_of(flags, {pipeline}).weights, weights);
  }
}

class CountingInput : public checkpoint::InputFile {
 public:
  CountingInput(std::unique_ptr<InputFile> file, std::size_t& bytes)
      : file_(std::move(file)), bytes_(bytes) {}
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    bytes_ += out.size();
    file_->read_at(offset, out);
  }
  std::uint64_t size() const override { return file_->size(); }

 private:
  std::unique_ptr<InputFile> file_;
  std::size_t& bytes_;
};

/// Counts the bytes that are read.
class CountingFiles : public checkpoint::FileLayer {
 public:
  std::size_t bytes = 0;

  std::unique_ptr<checkpoint::InputFile> open_for_reading(
      const std::filesystem::path& path) override {
    return std::make_unique<CountingInput>(files_.open_for_reading(path), bytes);
  }
  bool exists(const std::filesystem::path& path) override { return files_.exists(path); }
  std::unique_ptr<checkpoint::OutputFile> create(const std::filesystem::path& path) override {
    return files_.create(path);
  }
  std::unique_ptr<checkpoint::OutputFile> open_for_writing(
      const std::filesystem::path& path) override {
    return files_.open_for_writing(path);
  }
  void make_folder(const std::filesystem::path& path) override { files_.make_folder(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    files_.rename(from, to);
  }
  void sync_folder(const std::filesystem::path& path) override { files_.sync_folder(path); }
  void remove_all(const std::filesystem::path& path) override { files_.remove_all(path); }
  std::vector<std::string> list(const std::filesystem::path& folder) override {
    return files_.list(folder);
  }

 private:
  checkpoint::FileLayer& files_ = checkpoint::posix_files();
};

/// Loads the weights once more, and looks at what that takes.
class Loading : public train::Technique {
 public:
  explicit Loading(std::size_t stored_width) : stored_width_(stored_width) {}

  std::unique_ptr<train::Worker> wrap_worker(std::unique_ptr<train::Worker> worker,
                                             const train::TrainerState& trainer,
                                             const train::Setup& setup) const override {
    CountingFiles headers;
    static_cast<void>(checkpoint::LlamaFolder(headers, setup.train.init));
    std::size_t own = 0;
    std::size_t largest = 0;
    for (const auto& states : trainer.states) {
      for (const train::OwnedPiece& piece : states->pieces()) {
        for (const auto& run : train::runs_of(piece)) own += run.count;
        largest = std::max(largest, piece.elements.size());
      }
    }
    const Device& device = trainer.context.device;
    const std::size_t before = device.memory().current().total();
    device.reset_memory_peaks();
    CountingFiles files;
    train::load_initial_weights(setup.train.init, trainer, trainer.context.world, files);
    EXPECT_EQ(files.bytes - headers.bytes, own * stored_width_) << "bytes of others were read";
    EXPECT_LE(device.memory().peak_total().bytes, before + largest * sizeof(double));
    return worker;
  }

 private:
  std::size_t stored_width_;
};

TEST_F(InitialWeights, TakeTheShardsBytesAndTheMemoryOfOnePiece) {
  const std::string folder = write({.model = a_model(false), .type = StoredType::kBF16});
  const Extra loading = [] { return std::make_unique<Loading>(2); };
  for (const char* layout : {"--dp 1", "--dp 2 --zero 1", "--tp 4", "--dp 2 --tp 2 --zero 3"}) {
    SCOPED_TRACE(layout);
    static_cast<void>(outcome_of(flags_of(folder, fmt::format("--steps 1 {}", layout)), {loading}));
  }
}

// A training with them ends at its first loss, and would be blamed for it.
TEST_F(InitialWeights, ThatAreNotFiniteAreRefusedByName) {
  const std::string folder = write({.model = a_model(false)});
  const std::string file = name + "/model.safetensors";
  const std::string whole = test::read_file(parent.path(file));
  for (const auto& [bytes, shown] : {std::pair<std::string, const char*>{"\xff\xff\xff\x7f", "nan"},
                                     {std::string("\x00\x00\x80\x7f", 4), "inf"}}) {
    parent.write(file, whole.substr(0, whole.size() - bytes.size()) + bytes);
    for (const char* layout : {"", "--dp 2 --zero 3", "--tp 2"}) {
      SCOPED_TRACE(layout);
      EXPECT_THAT(
          message_of<FileError>([&] {
            static_cast<void>(outcome_of(flags_of(folder, fmt::format("--steps 1 {}", layout))));
          }),
          AllOf(HasSubstr(fmt::format("is {} in ", shown)), HasSubstr("--init")));
    }
  }
}

TEST_F(InitialWeights, OfAnotherModelAreRefusedOnEveryRank) {
  const std::string folder = write({.model = a_model(false)});
  nn::ModelConfig other = a_model(false);
  other.ffn_hidden_size = 28;
  parent.write(name + "/config.json", checkpoint::model_config_json(other, DType::kF32));
  EXPECT_THAT(message_of<FileError>([&] {
                static_cast<void>(outcome_of(flags_of(folder, "--steps 1 --dp 2 --zero 3")));
              }),
              AllOf(HasSubstr("gate_proj.weight has shape [24, 16]"), HasSubstr("[28, 16]")));
}

/// A model of so many layers takes minutes: it must not be made to be compared.
TEST_F(InitialWeights, OfFewerLayersAreRefusedBeforeTheModelIsMade) {
  const std::string folder = write({.model = a_model(false)});
  nn::ModelConfig deeper = a_model(false);
  deeper.num_layers = 1'000'000;
  parent.write(name + "/config.json", checkpoint::model_config_json(deeper, DType::kF32));
  EXPECT_THAT(message_of<FileError>(
                  [&] { static_cast<void>(outcome_of(flags_of(folder, "--steps 1 --dp 2"))); }),
              AllOf(HasSubstr("--init: the weights of '"), HasSubstr("no model.layers.4.*"),
                    HasSubstr("config.json says 1000000 layers")));
}

}  // namespace
}  // namespace ultra::composition
