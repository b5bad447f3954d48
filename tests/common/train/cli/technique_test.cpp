// Covers: common/train/cli/step_config.hpp
// Covers: common/train/cli/run_techniques.hpp
#include "common/train/cli/technique.hpp"

#include <map>

#include "common/train/cli/program.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/options/flags.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/ranks/star_algorithms.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::train {
namespace {

using test::words_of;

/// Ranks along an axis.
class Ranks : public Technique {
 public:
  explicit Ranks(Axis axis) : axis_(std::move(axis)) {}
  std::optional<Axis> axis() const override { return axis_; }

 private:
  Axis axis_;
};

std::unique_ptr<Technique> along(const std::string& name, std::size_t size, int nearness) {
  return std::make_unique<Ranks>(Axis{.name = name,
                                      .size = size,
                                      .nearness = nearness,
                                      .flag = "--" + name + " " + std::to_string(size)});
}

Setup setup_of(std::size_t ranks, Techniques techniques) {
  Setup setup;
  setup.comm.ranks = ranks;
  setup.techniques = std::move(techniques);
  return setup;
}

TEST(Setups, CountReplicasOfWhatTheAxesNeed) {
  EXPECT_EQ(setup_of(5, {}).replicas(), 5);
  EXPECT_EQ(setup_of(5, {}).mesh_shape(5).str(), "dp 5");
  const auto setup =
      setup_of(12, list_of(along("tp", 3, 40), along("pp", 2, 20), along("cp", 1, 30)));
  EXPECT_EQ(setup.replicas(), 2);
  EXPECT_EQ(setup.mesh_shape(12).str(), "dp 2 * pp 2 * cp 1 * tp 3");
  EXPECT_EQ(setup.mesh_shape(6).str(), "dp 1 * pp 2 * cp 1 * tp 3") << "others do not train";
  EXPECT_EQ(setup.ranks_per_replica(),
            (std::pair<std::size_t, std::string>(6, "--tp 3 and --pp 2")))
      << "an axis of one rank needs none";
}

TEST(Setups, RefuseRanksThatAreNoWholeReplicas) {
  const auto setup = setup_of(6, list_of(along("tp", 4, 40)));
  const auto refusal = [](const auto& call) { return message_of<ConfigError>(call); };
  EXPECT_THAT(refusal([&] { static_cast<void>(setup.replicas()); }),
              HasSubstr("6 ranks are no whole replicas of 4 ranks each (--tp 4): 6 % 4 = 2."));
  EXPECT_THAT(refusal([&] { static_cast<void>(setup.mesh_shape(7)); }),
              HasSubstr("7 ranks are no whole replicas of 4 ranks each"));
}

/// Says what it is asked, and offers what it is told to.
class Talker : public Technique {
 public:
  Talker(std::string name, std::vector<std::string>& calls)
      : name_(std::move(name)), calls_(calls) {}

  void add_flags(CLI::App& app, Setup& setup) override {
    if (name_ == "first") setup.train = test::short_run();
    Flags(app, "Talk").add(("--" + name_).c_str(), value_, "what it says");
    called("add_flags");
  }
  void validate(Setup&) override {
    called("validate");
    if (value_ == "bad") throw ConfigError("--" + name_ + " is bad");
  }
  void check_ranks(Setup&) override { called("check_ranks"); }
  void validate_training(const Setup&) const override {
    called("validate_training");
    if (value_ == "untrainable") throw ConfigError("--" + name_ + " cannot train");
  }
  ExtraConfig config(const Setup&) const override { return {{name_, value_}}; }
  Identity identity(const Setup&) const override {
    if (name_ == "second") return {};
    return {{"--" + name_, value_}};
  }
  std::vector<Question> questions() const override {
    const std::map<std::string, Instead> known = {{"answer", Instead::kAnswer},
                                                  {"measure", Instead::kMeasurement}};
    const auto asked = known.find(value_);
    if (asked == known.end()) return {};
    return {{"--" + name_, asked->second}};
  }
  std::vector<FileFlag> files() const override {
    if (!value_.starts_with("file:")) return {};
    return {{"--" + name_, value_.substr(5), FileUse::kWritten}};
  }
  std::optional<std::string> answer(const Setup&) const override {
    if (value_ != "answer") return {};
    return "answer of the " + name_ + "\n";
  }
  void measure(const Setup&) const override { fmt::print("measured by the {}\n", name_); }
  void configure_plan(Plan&, const Setup&) const override { called("configure_plan"); }
  void wrap_layers(FactoryStack&, const Plan&, const Setup&) const override {
    called("wrap_layers");
  }
  void configure_step(StepConfig&, const Setup&) const override { called("configure_step"); }
  std::unique_ptr<Worker> wrap_worker(std::unique_ptr<Worker> worker, const TrainerState&,
                                      const Setup&) const override {
    called("wrap_worker");
    return worker;
  }
  std::string table(const Setup&, const TrainResult&) const override {
    return "table of the " + name_ + "\n";
  }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  void called(const std::string& what) const { calls_.push_back(what + " " + name_); }

  std::string name_;
  std::string value_;
  std::vector<std::string>& calls_;
};

/// Brings algorithms of the names that there are.
class Algorithms : public Technique {
 public:
  explicit Algorithms(AlgorithmNames& asked) : asked_(asked) {}
  std::shared_ptr<const comm::CollectiveAlgorithms> algorithms(
      const AlgorithmNames& names) const override {
    asked_ = names;
    return std::make_shared<const test::StarAlgorithms>();
  }
  void name_algorithms(AlgorithmNames& names) const override { names[OpKind::kAllReduce] = "star"; }

 private:
  AlgorithmNames& asked_;
};

class Program : public ::testing::Test {
 protected:
  [[nodiscard]] Techniques techniques() {
    Techniques list = list_of(test::plain_training());
    for (const char* name : {"first", "second", "third"}) {
      list.push_back(std::make_unique<Talker>(name, calls));
    }
    return list;
  }

  /// What a program prints on stdout, and on stderr behind it.
  std::string printed(const std::string& flags, int exit_code = kExitOk) {
    calls.clear();
    const std::vector<std::string> words = words_of("talker " + flags);
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStderr();
    const std::string out = test::printed_by([&] {
      EXPECT_EQ(run_techniques(
                    "talker", "Talks.", [&] { return techniques(); }, static_cast<int>(argv.size()),
                    argv.data()),
                exit_code);
    });
    return out + ::testing::internal::GetCapturedStderr();
  }

  std::vector<std::string> calls;
};

TEST_F(Program, AsksTheTechniquesInTheirOrder) {
  const std::string out = printed("--steps 1");
  std::vector<std::string> expected;
  for (const char* what : {"add_flags", "validate", "check_ranks", "validate_training",
                           "configure_step", "configure_plan", "wrap_layers", "wrap_worker"}) {
    for (const char* name : {"first", "second", "third"}) {
      expected.push_back(std::string(what) + " " + name);
    }
  }
  ASSERT_GT(calls.size(), expected.size()) << "a recorded step asks again";
  calls.resize(expected.size());
  EXPECT_EQ(calls, expected);
  EXPECT_THAT(out, HasSubstr("step     1/1"));
  EXPECT_THAT(out, HasSubstr("table of the first\ntable of the second\n"
                             "table of the third\n"));
}

TEST_F(Program, AnswersInsteadOfTraining) {
  EXPECT_EQ(printed("--first answer"), "answer of the first\n");
  EXPECT_THAT(calls, ElementsAre("add_flags first", "add_flags second", "add_flags third",
                                 "validate first", "validate second", "validate third"))
      << "an answer needs no ranks";
  EXPECT_EQ(printed("--third answer"), "answer of the third\n");
  EXPECT_EQ(printed("--second measure --third untrainable"), "measured by the second\n");
  EXPECT_EQ(printed("--print-ranks"), "1\n");
}

TEST_F(Program, AnswersOneQuestionAndWritesNoFile) {
  for (const char* other : {"answer", "measure"}) {
    EXPECT_EQ(printed(std::string("--first answer --third ") + other, kExitBadInput),
              "error: --first and --third each ask for something instead of training. Give one of "
              "them.\n");
  }
  for (const char* question : {"answer", "measure"}) {
    const std::string asked = std::string("--first ") + question;
    for (const char* file : {" --metrics m", " --trace t"}) {
      EXPECT_THAT(printed(asked + file, kExitBadInput),
                  HasSubstr("has no meaning with --first, which answers on stdout"));
    }
    EXPECT_THAT(printed(asked + " --second file:x", kExitBadInput),
                HasSubstr("--second has no meaning with --first"));
    EXPECT_NE(printed(asked + " --data d"), "") << "what is read is left unread";
  }
}

TEST_F(Program, RefusesOneFileForTwoFlags) {
  test::TemporaryFolder folder;
  const std::string text = folder.write("text", "mine");
  EXPECT_THAT(printed("--data " + text + " --metrics " + folder.path("./text"), kExitBadInput),
              AllOf(HasSubstr("--data '"), HasSubstr("--metrics '"), HasSubstr("are one file")));
  EXPECT_THAT(printed("--first file:" + text + " --data " + text, kExitBadInput),
              HasSubstr("--data and --first both name"));
  EXPECT_EQ(test::read_file(text), "mine");
  EXPECT_THAT(printed("--metrics s --third file:./s", kExitBadInput), HasSubstr("are one file"));
}

TEST_F(Program, RefusesBadFlagsInOneLine) {
  EXPECT_EQ(printed("--second bad", kExitBadInput), "error: --second is bad\n");
  EXPECT_EQ(printed("--third untrainable", kExitBadInput), "error: --third cannot train\n");
  EXPECT_THAT(printed("--fourth", kExitBadInput), StartsWith("error: "));
  EXPECT_THAT(printed("--micro-batch 3", kExitBadInput), HasSubstr("4 % 3 = 1"));
}

TEST_F(Program, AFlagsTextIsASetupToo) {
  const auto setup = parse_setup(techniques(), words_of("--steps 7 --second hello"));
  EXPECT_EQ(setup.train.steps, 7U);
  EXPECT_FALSE(setup.question().has_value());
  EXPECT_FALSE(setup.has_ranks());
  ASSERT_NE(setup.find<Talker>(), nullptr);
  EXPECT_EQ(setup.find<Talker>()->name(), "first");
  EXPECT_EQ(setup.find<Ranks>(), nullptr);
  ASSERT_EQ(setup.config().size(), 3U);
  EXPECT_EQ(setup.config()[1].first, "second");
  EXPECT_EQ(setup.identity(), (Identity{{"--first", ""}, {"--third", ""}}));
  for (const char* flags : {"--second bad", "--second untrainable", "--fourth 1", "--steps many"}) {
    EXPECT_THROW(static_cast<void>(parse_setup(techniques(), words_of(flags))), ConfigError)
        << flags;
  }
}

TEST(Setups, RankOptionsHaveTheAlgorithmsThatTheTechniquesName) {
  AlgorithmNames asked;
  const auto setup = setup_of(2, list_of(std::make_unique<Algorithms>(asked)));
  EXPECT_TRUE(setup.has_ranks());
  EXPECT_NE(setup.rank_options().algorithms, nullptr);
  EXPECT_EQ(asked, (AlgorithmNames{{OpKind::kAllReduce, "star"}}));
  EXPECT_EQ(setup_of(2, {}).rank_options().algorithms, nullptr);
}

/// A trainer whose ranks are some of the run's, and whose steps are its own.
TEST(MakeTrainer, TrainsOnSomeOfTheRanks) {
  std::vector<double> losses(3);
  static_cast<void>(test::printed_by([&] {
    run_ranks(3, [&](Communicator& world) {
      TrainOptions options = test::short_run();
      options.global_batch = 2;
      const auto alone = [&](const train::Setup& setup, const RunContext& context) {
        return make_trainer(setup, context, world.split(std::identity(), "alone"));
      };
      const train::Setup setup = test::setup_of(options, 3, list_of(test::plain_training()));
      losses[static_cast<std::size_t>(world.rank())] =
          train_with(setup, world, alone).steps.back().loss;
    });
  }));
  TrainOptions options = test::short_run();
  options.global_batch = 2;
  EXPECT_THAT(losses, ::testing::Each(test::train_quietly(options).steps.back().loss));
}

using Text = Slot<std::string>;

TEST(Slots, AClaimStandsWhateverIsOfferedBeforeOrBehind) {
  Text slot;
  slot.offer("before");
  slot.claim("--zero", "claimed");
  slot.offer("behind");
  EXPECT_EQ(slot.get(), "claimed");
}

TEST(Slots, TwoClaimsAreRefusedInWordsThatNameBoth) {
  Text slot;
  slot.claim("--zero", "first");
  EXPECT_THAT(message_of<ConfigError>([&] { slot.claim("--servers", "second"); }),
              AllOf(HasSubstr("--zero and --servers do not go together"),
                    HasSubstr("Leave one of the two out")));
  EXPECT_EQ(slot.get(), "first");
}

}  // namespace
}  // namespace ultra::train
