# What the runtime and the host target are built with. fmt and the JSON reader are
# header-only: an engine that links us needs neither.
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(Threads REQUIRED)
find_package(Boost REQUIRED COMPONENTS context)
