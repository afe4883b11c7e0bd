# What the runtime and the host target are built with. fmt is header-only: an engine
# that links us does not need it.
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
set(Boost_USE_STATIC_LIBS ON) # programs carry the fibers, not a library to install
find_package(Boost REQUIRED COMPONENTS context)
