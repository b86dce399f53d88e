include $(sort $(wildcard $(BR2_EXTERNAL_LINERATE_PATH)/package/*/*.mk))
