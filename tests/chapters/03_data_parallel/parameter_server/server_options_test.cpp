#include "chapters/03_data_parallel/parameter_server/server_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::data_parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ultra::test::message_of;

ServerOptions parsed(const std::vector<std::string>& arguments) {
  return ultra::test::parsed<ServerOptions>(arguments);
}

std::string refusal(const std::vector<std::string>& arguments) {
  return message_of<ConfigError>([&] { parsed(arguments).validate(); });
}

TEST(ServerOptions, WithoutFlagsThereIsNoServer) {
  const ServerOptions options = parsed({});
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.num_servers(), 0U);
  EXPECT_FALSE(options.slow_replica());
  EXPECT_EQ(options.config(), (train::ExtraConfig{{"sync", std::string("all-reduce")}}));
}

TEST(ServerOptions, OfAParameterServerHaveDefaults) {
  const ServerOptions options = parsed({"--sync", "parameter-server"});
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.num_servers(), 1U);
  const ServerSettings settings = options.settings(DType::kF32);
  EXPECT_EQ(settings.servers, 1);
  EXPECT_EQ(settings.priority, Priority::kNone);
  EXPECT_EQ(settings.slice_capacity, 0U);
  EXPECT_FALSE(settings.asynchronous);
  EXPECT_EQ(settings.staleness, 2U);
}

TEST(ServerOptions, AreRead) {
  const ServerOptions options =
      parsed({"--sync", "parameter-server", "--servers", "3", "--async", "--staleness", "0",
              "--priority", "priority", "--slice-kb", "2.5", "--straggler", "1:12.5"});
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.num_servers(), 3U);
  const ServerSettings settings = options.settings(DType::kF64);
  EXPECT_EQ(settings.servers, 3);
  EXPECT_EQ(settings.priority, Priority::kPriority);
  EXPECT_EQ(settings.slice_capacity, 312U);
  EXPECT_TRUE(settings.asynchronous);
  EXPECT_EQ(settings.staleness, 0U);
  EXPECT_EQ(options.slow_replica(),
            (Straggler{.replica = 1, .delay = std::chrono::duration<double>(0.0125)}));
  EXPECT_EQ(options.config(), (train::ExtraConfig{{"sync", std::string("parameter-server")},
                                                  {"servers", std::size_t{3}},
                                                  {"priority", std::string("priority")},
                                                  {"slice_kb", 2.5},
                                                  {"async", std::string("on")},
                                                  {"staleness", std::size_t{0}},
                                                  {"straggler", std::string("1:12.5")}}));
}

TEST(ServerOptions, SliceSizesMeanPrioritiesOnly) {
  const ServerOptions options = parsed({"--sync", "parameter-server", "--priority", "wait-free"});
  EXPECT_NO_THROW(options.validate());
  EXPECT_EQ(options.settings(DType::kF32).slice_capacity, 0U) << "parameters stay whole";
  const ServerOptions priority = parsed({"--sync", "parameter-server", "--priority", "priority"});
  EXPECT_NO_THROW(priority.validate());
  EXPECT_EQ(priority.settings(DType::kF32).slice_capacity,
            static_cast<std::size_t>(ServerOptions::kSliceKb * 1000 / 4));
}

TEST(ServerOptions, NeedTheFlagThatGivesThemAMeaning) {
  EXPECT_THAT(refusal({"--servers", "2"}),
              AllOf(HasSubstr("--servers has no meaning without --sync parameter-server")));
  EXPECT_THAT(refusal({"--async"}), HasSubstr("--async has no meaning without --sync"));
  EXPECT_THAT(refusal({"--priority", "none"}), HasSubstr("--priority has no meaning without"));
  EXPECT_THAT(refusal({"--sync", "parameter-server", "--staleness", "1"}),
              HasSubstr("--staleness has no meaning without --async"));
  EXPECT_THAT(refusal({"--sync", "parameter-server", "--slice-kb", "8"}),
              HasSubstr("--slice-kb has no meaning without --priority priority"));
  EXPECT_THAT(refusal({"--sync", "parameter-server", "--priority", "wait-free", "--slice-kb", "8"}),
              HasSubstr("--slice-kb has no meaning without --priority priority"));
  EXPECT_NO_THROW(parsed({"--straggler", "0:5"}).validate()) << "all-reduce has stragglers, too";
}

TEST(ServerOptions, RefuseValuesThatCannotWork) {
  EXPECT_THAT(refusal({"--sync", "parameter-server", "--servers", "0"}),
              HasSubstr("--servers is 0. It must be at least 1."));
  for (const char* size : {"0", "-3", "0.5", "nan", "inf"}) {
    EXPECT_THAT(
        refusal({"--sync", "parameter-server", "--priority", "priority", "--slice-kb", size}),
        HasSubstr("--slice-kb is"))
        << size;
  }
  for (const char* text : {"1", "a:5", "1:", ":5", "-1:5", "1:-5", "1:nan", "1:2:3", "1:5ms"}) {
    EXPECT_THAT(refusal({"--straggler", text}),
                AllOf(HasSubstr("--straggler is '" + std::string(text) + "'"), HasSubstr("1:50")));
  }
  EXPECT_THAT(message_of<ConfigError>([] {
                parsed({"--sync", "ring"});
              }),
              HasSubstr("It must be all-reduce or parameter-server."));
  EXPECT_THAT(message_of<ConfigError>([] {
                parsed({"--priority", "high"});
              }),
              HasSubstr("--priority is 'high'. It must be none, wait-free or priority."));
  EXPECT_THROW(static_cast<void>(parsed({"--servers", "-1"})), CLI::ValidationError);
}

TEST(ServerOptions, AStragglerIsOneOfTheReplicas) {
  const ServerOptions options = parsed({"--straggler", "2:5"});
  EXPECT_NO_THROW(options.expect_straggler_among(3));
  EXPECT_THAT(message_of<ConfigError>([&] { options.expect_straggler_among(2); }),
              HasSubstr("there is no replica 2 among 2. They are 0 to 1."));
  EXPECT_NO_THROW(parsed({}).expect_straggler_among(1));
}

}  // namespace
}  // namespace ultra::data_parallel
