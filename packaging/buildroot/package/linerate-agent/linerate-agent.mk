################################################################################
#
# linerate-agent
#
################################################################################

# `cargo xtask packages` fills in the version, and the checksums in linerate-agent.hash.
LINERATE_AGENT_VERSION = @VERSION@
LINERATE_AGENT_SOURCE = linerate-agents-$(LINERATE_AGENT_VERSION).tar.gz
LINERATE_AGENT_SITE = $(call qstrip,$(BR2_PACKAGE_LINERATE_AGENT_RELEASE))
LINERATE_AGENT_LICENSE = MIT or Apache-2.0
LINERATE_AGENT_LICENSE_FILES = LICENSE-MIT LICENSE-APACHE THIRD-PARTY-LICENCES.txt

ifeq ($(BR2_PACKAGE_LINERATE_AGENT)$(LINERATE_AGENT_SITE),y)
$(error Set BR2_PACKAGE_LINERATE_AGENT_RELEASE to where $(LINERATE_AGENT_SOURCE) is, like file:///srv/linerate)
endif

# The agent for ARMv7 needs a floating-point unit; the one for ARMv5 runs on all of them.
ifeq ($(BR2_ARM_EABIHF)$(BR2_ARM_CPU_ARMV7A),yy)
LINERATE_AGENT_MACHINE = armv7
else ifeq ($(BR2_ARM_EABIHF)$(BR2_ARM_CPU_ARMV8A),yy)
LINERATE_AGENT_MACHINE = armv7
else ifeq ($(BR2_arm),y)
LINERATE_AGENT_MACHINE = armv5
else
LINERATE_AGENT_MACHINE = $(call qstrip,$(BR2_ARCH))
endif

define LINERATE_AGENT_INSTALL_TARGET_CMDS
	$(INSTALL) -D -m 0755 $(@D)/linerate-agent-$(LINERATE_AGENT_MACHINE) \
		$(TARGET_DIR)/usr/bin/linerate-agent
endef

$(eval $(generic-package))
