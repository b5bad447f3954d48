#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "common/train/program/run_techniques.hpp"
#include "tests/support/command_line.hpp"
#include "tests/support/llama_folder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

class ServerTechnique : public ultra::test::RandomTest {
 protected:
  static std::string refusal(const std::string& flags) {
    return message_of<ConfigError>([&] {
      static_cast<void>(
          train::parse_setup(train::list_of(memory::technique(), collectives::technique(),
                                            data_parallel::technique(), parameter_servers()),
                             ultra::test::words_of("--dp 2 --sync parameter-server " + flags)));
    });
  }
};

TEST_F(ServerTechnique, HasNoModelToLoadOrToValidate) {
  const ultra::test::TemporaryFolder folder;
  ultra::test::write_llama_folder(folder, "model", {.model = {.num_layers = 1}}, random);
  EXPECT_THAT(refusal("--init " + folder.path("model")),
              AllOf(StartsWith("--init does not go together with --sync parameter-server"),
                    HasSubstr("Leave one of the two out")));
  EXPECT_THAT(refusal("--val-data text"),
              StartsWith("--val-data does not go together with --sync parameter-server"));
}

}  // namespace
}  // namespace ultra::data_parallel
