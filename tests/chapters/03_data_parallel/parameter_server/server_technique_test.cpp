#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "tests/support/files/llama_folder.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

ServerOptions valid(const std::string& line) { return test::valid<ServerOptions>(line); }

TEST(ServerOptions, AreRead) {
  const ServerOptions options = valid(
      "--servers 3 --async --staleness 0 --priority priority --slice-kb 2.5 "
      "--straggler 1:12.5");
  const ServerSettings settings = options.settings(DType::kF64);
  EXPECT_EQ(settings.servers, 3);
  EXPECT_EQ(settings.priority, Priority::kPriority);
  EXPECT_EQ(settings.slice_capacity, 312U);
  EXPECT_TRUE(settings.asynchronous);
  EXPECT_EQ(settings.staleness, 0U);
  EXPECT_EQ(options.slow_replica(),
            (Straggler{.replica = 1, .delay = std::chrono::duration<double>(0.0125)}));
  EXPECT_EQ(options.config(), (train::ExtraConfig{{"servers", std::size_t{3}},
                                                  {"priority", std::string("priority")},
                                                  {"slice_kb", 2.5},
                                                  {"async", std::string("on")},
                                                  {"staleness", std::size_t{0}},
                                                  {"straggler", std::string("1:12.5")}}));
}

TEST(ServerOptions, SliceSizesMeanPrioritiesOnly) {
  EXPECT_EQ(valid("--priority wait-free").settings(DType::kF32).slice_capacity, 0U)
      << "parameters stay whole";
  const ServerOptions priority = valid("--priority priority");
  EXPECT_EQ(priority.settings(DType::kF32).slice_capacity,
            static_cast<std::size_t>(ServerOptions::kSliceKb * 1000 / 4));
}

TEST(ServerOptions, NeedTheFlagThatGivesThemAMeaning) {
  const std::string no_slices = "--slice-kb has no meaning without --priority priority";
  test::expect_refused<ServerOptions>(
      {{"--staleness 1", {"--staleness has no meaning without --async"}},
       {"--slice-kb 8", {no_slices}},
       {"--priority wait-free --slice-kb 8", {no_slices}}});
}

TEST(ServerOptions, RefuseValuesThatCannotWork) {
  for (const std::string size : {"0", "-3", "0.5", "nan", "inf"}) {
    test::expect_refused<ServerOptions>(
        {{"--priority priority --slice-kb " + size, {"--slice-kb is"}}});
  }
  for (const std::string text :
       {"1", "a:5", "1:", ":5", "-1:5", "1:-5", "1:nan", "1:2:3", "1:5ms"}) {
    test::expect_refused<ServerOptions>(
        {{"--straggler " + text, {"--straggler is '" + text + "'", "1:50"}}});
  }
  test::expect_refused<ServerOptions>(
      {{"--servers 0", {"--servers is 0. It must be a whole number from 1 to"}},
       {"--priority high", {"--priority is 'high'. It must be none, wait-free or priority."}}});
  EXPECT_THROW(static_cast<void>(valid("--servers -1")), ConfigError);
}

class ServerTechnique : public test::RandomTest {
 protected:
  static std::string refusal(const std::string& flags) {
    return message_of<ConfigError>([&] {
      static_cast<void>(train::parse_setup(
          train::list_of(memory::technique(), collectives::technique(), parameter_servers()),
          test::words_of("--dp 2 " + flags)));
    });
  }
};

TEST_F(ServerTechnique, HasNoModelToLoadOrToValidate) {
  const test::TemporaryFolder folder;
  test::write_llama_folder(folder, "model", {.model = {.num_layers = 1}}, random);
  EXPECT_THAT(refusal("--init " + folder.path("model")),
              AllOf(StartsWith("--init does not go together with parameter servers"),
                    HasSubstr("Leave it out")));
  EXPECT_THAT(refusal("--val-data text"),
              StartsWith("--val-data does not go together with parameter servers"));
  EXPECT_THAT(refusal("--freeze embed_tokens"),
              StartsWith("--freeze does not go together with parameter servers"));
  EXPECT_THAT(refusal("--optimizer muon"),
              AllOf(StartsWith("--optimizer muon does not go together with parameter servers"),
                    HasSubstr("whole matrices. Choose adamw or sgd")));
}

TEST(ServerOptions, AStragglerIsOneOfTheReplicas) {
  const ServerOptions options = valid("--straggler 2:5");
  EXPECT_NO_THROW(options.expect_straggler_among(3));
  const auto of_two = [&] { options.expect_straggler_among(2); };
  test::expect_parts(test::message_of<ConfigError>(of_two),
                     {"there is no replica 2 among 2. They are 0 to 1."});
  EXPECT_NO_THROW(valid("").expect_straggler_among(1));
}

}  // namespace
}  // namespace ultra::data_parallel
